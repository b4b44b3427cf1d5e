// Measures the device time of operators with the driver's events, for torch.profiler.
#include <torch/csrc/profiler/stubs/base.h>

#include <chrono>

#include "backend/device.h"
#include "backend/register.h"
#include "runtime/device.h"
#include "runtime/stream.h"

namespace mpsx::backend {
namespace {

using torch::profiler::impl::ProfilerVoidEventStub;

driver::Event* driver_event(const ProfilerVoidEventStub* event) { return static_cast<driver::Event*>(event->get()); }

struct Stubs final : torch::profiler::impl::ProfilerStubs {
  void record(c10::DeviceIndex* device, ProfilerVoidEventStub* event, int64_t* cpu_ns) const override {
    auto& driver = runtime::driver();
    if (device) *device = 0;
    *event = {driver.new_event(), [&driver](void* e) { driver.destroy(static_cast<driver::Event*>(e)); }};
    if (cpu_ns) *cpu_ns = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
    driver.record(driver_event(event), runtime::driver_stream(runtime::current_stream()));
  }
  // Returns the time between two events in microseconds.
  float elapsed(const ProfilerVoidEventStub* from, const ProfilerVoidEventStub* to) const override {
    auto& driver = runtime::driver();
    driver.synchronize(driver_event(from));
    driver.synchronize(driver_event(to));
    return float(driver.elapsed_ms(driver_event(from), driver_event(to)) * 1e3);
  }
  void mark(const char*) const override {}
  void rangePush(const char* name) const override { runtime::driver().begin_label(name); }
  void rangePop() const override { runtime::driver().end_label(); }
  bool enabled() const override { return true; }
  void onEachDevice(std::function<void(int)> op) const override { op(0); }
  void synchronize() const override { runtime::synchronize(); }
};

}  // namespace

void register_profiler_stubs() {
  static Stubs stubs;
  torch::profiler::impl::registerPrivateUse1Methods(&stubs);
}

}  // namespace mpsx::backend
