// The hooks that PyTorch calls for an out-of-tree accelerator.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "backend/device.h"
#include "backend/generator.h"
#include "backend/pinned.h"
#include "backend/register.h"
#include "backend/shared_device.h"
#include "backend/storage.h"

namespace mpsx::backend {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }

  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex device) const override { check(device); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override { return check(device); }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? 0 : check(device);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return new_generator(); }

  at::Device getDeviceFromPtr(void*) const override { return this_device(); }
  bool isPinnedPtr(const void* p) const override { return is_pinned(p); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }

  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    resize_storage(storage.unsafeGetStorageImpl(), bytes);
  }

 private:
  static c10::DeviceIndex check(c10::DeviceIndex device) {
    TORCH_CHECK(is_device_index(device), "mpsx: expected device index 0, got ", static_cast<int>(device));
    return 0;
  }
};

}  // namespace

void register_hooks() {
  static Hooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
}

}  // namespace mpsx::backend
