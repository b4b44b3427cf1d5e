// Lets CPU kernels that we call allocate from the device's cache.
#pragma once

#include <c10/core/Allocator.h>

namespace mpsx::backend {

// For its scope, CPU kernels on this thread allocate results and scratch from the device's cache, on drivers that use
// process memory (host). Every training step allocates the same gigabytes, whose pages the system would otherwise zero
// again each time. Other threads, and CPU tensors outside our calls, are not affected.
class CpuAllocatorGuard {
 public:
  CpuAllocatorGuard();
  ~CpuAllocatorGuard();
  CpuAllocatorGuard(const CpuAllocatorGuard&) = delete;
  CpuAllocatorGuard& operator=(const CpuAllocatorGuard&) = delete;
};

// Whether a CPU tensor's memory is a block of the device's cache, which already counts it.
bool is_device_cache_memory(const c10::DataPtr& data);

}  // namespace mpsx::backend
