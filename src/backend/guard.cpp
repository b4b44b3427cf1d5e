// The device guard, which manages the current device, the current stream and events.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "backend/device.h"
#include "backend/register.h"
#include "backend/shared_device.h"
#include "backend/torch_version.h"
#include "runtime/device.h"
#include "runtime/stream.h"

namespace mpsx::backend {
namespace {

c10::Stream stream_of(runtime::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, this_device(), id); }
driver::Event* event_of(void* event) { return static_cast<driver::Event*>(event); }

void check(c10::Device device) {
  TORCH_CHECK(is_mpsx(device), "mpsx: expected a device of type mpsx, got ", device);
  TORCH_CHECK(device.index() < 0 || is_device_index(device.index()), "mpsx: expected an index below ", device_count(),
              ", got ", device,
              "; processes that share the device may each use their own index after init_process_group, or "
              "earlier if LOCAL_WORLD_SIZE is set, for example by torchrun");
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDeviceType; }

  c10::Device exchangeDevice(c10::Device device) const override {
    check(device);
    return this_device();
  }
  c10::Device getDevice() const override { return this_device(); }
  void setDevice(c10::Device device) const override { check(device); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  // Report all capabilities, because the fallback supports dtypes that Apple GPUs lack.
  c10::DeviceCapability getDeviceCapability(c10::Device) const override { return {}; }

  c10::Stream getStream(c10::Device) const override { return stream_of(runtime::current_stream()); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream_of(runtime::new_stream()); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream_of(runtime::new_stream()); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const auto old = runtime::current_stream();
    runtime::set_current_stream(stream.id());
    return stream_of(old);
  }
  void* getStreamNativeHandle(const c10::Stream stream) const override { return runtime::driver_stream(stream.id()); }
  bool queryStream(const c10::Stream& stream) const override { return runtime::idle(stream.id()); }
  void synchronizeStream(const c10::Stream& stream) const override { runtime::synchronize(stream.id()); }
  void synchronizeDevice(const c10::DeviceIndex) const override { runtime::synchronize(); }
  MPSX_SINCE_2_13(bool isStreamCapturing(const c10::Stream&) const override { return false; })

  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event) runtime::driver().destroy(event_of(event));
  }
  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex, const c10::EventFlag) const override {
    auto& driver = runtime::driver();
    if (!*event) *event = driver.new_event();
    driver.record(event_of(*event), runtime::driver_stream(stream.id()));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event) runtime::driver().wait(event_of(event), runtime::driver_stream(stream.id()));
  }
  bool queryEvent(void* event) const override { return !event || runtime::driver().query(event_of(event)); }
  void synchronizeEvent(void* event) const override {
    if (event) runtime::driver().synchronize(event_of(event));
  }
  double elapsedTime(void* from, void* to, const c10::DeviceIndex) const override {
    TORCH_CHECK(from && to, "elapsed_time: expected both events to be recorded");
    return runtime::driver().elapsed_ms(event_of(from), event_of(to));
  }
};

}  // namespace

void register_guard() { static c10::impl::DeviceGuardImplRegistrar registrar(kDeviceType, new Guard()); }

}  // namespace mpsx::backend
