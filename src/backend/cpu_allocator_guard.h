// Lets the CPU kernels that we call allocate from the device's cache.
#pragma once

#include <c10/core/Allocator.h>

namespace mpsx::backend {

// While this object exists, CPU kernels on this thread allocate results and scratch memory from the device's cache, on
// drivers that use process memory (host). Without it, the OS would zero the same gigabytes of pages again in every
// training step. Other threads, and CPU tensors outside our calls, are not affected.
class CpuAllocatorGuard {
 public:
  CpuAllocatorGuard();
  ~CpuAllocatorGuard();
  CpuAllocatorGuard(const CpuAllocatorGuard&) = delete;
  CpuAllocatorGuard& operator=(const CpuAllocatorGuard&) = delete;
};

// Returns whether a CPU tensor's memory is from the device's cache, which already counts this memory.
bool is_device_cache_memory(const c10::DataPtr& data);

}  // namespace mpsx::backend
