// Keeps buffers resident on the GPU (MTLResidencySet, macOS 15), which saves Metal from doing so for every command
// buffer that uses them.
#pragma once

#include <unordered_set>

#include "driver/metal/device.h"

namespace mpsx::driver::metal {

// On macOS 14 this does nothing, because Metal makes the buffers that a command buffer binds resident. The same holds
// for buffers beyond the recommended size of the GPU's memory. Not thread-safe.
class Residency {
 public:
  Residency(id<MTLDevice>, id<MTLCommandQueue>);
  ~Residency();
  Residency(const Residency&) = delete;
  Residency& operator=(const Residency&) = delete;

  void add(id<MTLBuffer>);
  void remove(id<MTLBuffer>);
  // Applies the changes. Call it before committing a command buffer that uses added buffers. Removed buffers stay
  // allocated until this call.
  void commit();

 private:
  Owned<id<MTLCommandQueue>> queue_;
  Owned<id> set_;  // an MTLResidencySet, which SDKs before macOS 15 do not declare; null if there is none
  std::unordered_set<const void*> buffers_;
  uint64_t bytes_ = 0, limit_;
  bool changed_ = false;
};

}  // namespace mpsx::driver::metal
