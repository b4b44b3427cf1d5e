// Managed memory. The CPU and the GPU use the same addresses, as on a Mac, and each page migrates to the processor that
// accesses it.
#pragma once

#include <mutex>
#include <set>

#include "driver/cuda/device.h"

namespace mpsx::driver::cuda {

class ManagedMemory {
 public:
  // If `exact` is true, device memory is allocated instead. The CPU cannot access it, but compute-sanitizer checks its
  // exact bounds.
  ManagedMemory(const Device&, CUstream, bool exact);

  // Allocates memory that is resident on the GPU. Throws OutOfMemory if it does not fit next to earlier allocations,
  // because oversubscribing managed memory can hang the GPU.
  Buffer allocate(size_t bytes);
  Buffer allocate_host_resident(size_t bytes);  // pinned CPU memory that the GPU can access
  void release(const Buffer&) noexcept;
  void copy(void* to, const void* from, size_t bytes) const;
  size_t free_bytes() const;
  // Migrates pages that the CPU has accessed back to the GPU, before the stream's next kernels.
  void prefetch(const void* address, size_t bytes) noexcept;

 private:
  const Device& device_;
  const CUstream stream_;
  const bool exact_;
  size_t available_ = 0;  // number of free bytes when the driver started
  std::mutex mutex_;
  size_t allocated_ = 0;
  std::set<void*> pinned_;
};

}  // namespace mpsx::driver::cuda
