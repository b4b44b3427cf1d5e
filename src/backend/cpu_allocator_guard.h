// Lets CPU kernels that we call allocate from the device's cache.
#pragma once

#include <c10/core/Allocator.h>

namespace mpsx::backend {

// While alive, CPU kernels on this thread allocate results and scratch memory from the device's cache, on drivers that
// use process memory (host). Every training step allocates the same gigabytes of memory, and without the cache, the OS
// would zero those pages again in every step. Other threads and CPU tensors outside our calls are not affected.
class CpuAllocatorGuard {
 public:
  CpuAllocatorGuard();
  ~CpuAllocatorGuard();
  CpuAllocatorGuard(const CpuAllocatorGuard&) = delete;
  CpuAllocatorGuard& operator=(const CpuAllocatorGuard&) = delete;
};

// Returns whether a CPU tensor's memory comes from the device's cache, which already counts that memory.
bool is_device_cache_memory(const c10::DataPtr& data);

}  // namespace mpsx::backend
