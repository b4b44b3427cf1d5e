// Managed memory: one address for CPU and GPU, as on a Mac, whose pages lie where they were used last.
#pragma once

#include <mutex>
#include <set>

#include "driver/cuda/device.h"

namespace mpsx::driver::cuda {

class ManagedMemory {
 public:
  // `exact`: memory is the GPU's own instead, which compute-sanitizer watches to the byte and the CPU cannot touch.
  ManagedMemory(const Device&, CUstream, bool exact);

  // Lies on the GPU from the start. Throws OutOfMemory where the GPU has no room for it beside what was allocated
  // before: a program that takes more managed memory than there is can hang the GPU.
  Buffer allocate(size_t bytes);
  Buffer allocate_near_cpu(size_t bytes);  // pinned memory of the CPU, which the GPU reaches
  void release(const Buffer&) noexcept;
  void copy(void* to, const void* from, size_t bytes) const;
  size_t free_bytes() const;
  // Moves pages that the CPU used back to the GPU, ahead of the kernels that the stream gets next.
  void prefetch(const void* address, size_t bytes) noexcept;

 private:
  const Device& device_;
  const CUstream stream_;
  const bool exact_;
  size_t available_ = 0;  // when the process began
  std::mutex mutex_;
  size_t allocated_ = 0;
  std::set<void*> pinned_;
};

}  // namespace mpsx::driver::cuda
