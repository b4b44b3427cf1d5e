#include "driver/cuda/memory.h"

#include <algorithm>

namespace mpsx::driver::cuda {
namespace {

// Memory to leave unused, for the contexts, code and kernel stacks of this process and of other processes.
constexpr size_t kReserve = size_t(512) << 20;

size_t saturating_sub(size_t a, size_t b) { return a > b ? a - b : 0; }

}  // namespace

ManagedMemory::ManagedMemory(const Device& device, CUstream stream, bool exact)
    : device_(device), stream_(stream), exact_(exact) {
  size_t total = 0;
  device_.api.check(device_.api.cuMemGetInfo(&available_, &total), "cuMemGetInfo");
  available_ = saturating_sub(available_, kReserve);
}

Buffer ManagedMemory::allocate(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    // CUDA also reports our pages as free if they have migrated to the CPU or have not been touched yet. Therefore,
    // also limit the memory to what was available at startup minus our earlier allocations.
    const size_t room = std::min(saturating_sub(available_, allocated_), free_bytes());
    if (size > room)
      throw OutOfMemory("the GPU has " + std::to_string(room) + " bytes available, " + std::to_string(size) +
                        " are needed");
    allocated_ += size;
  }
  CUdeviceptr address = 0;
  const Api& api = device_.api;
  try {
    if (exact_)
      api.check(api.cuMemAlloc(&address, size), "cuMemAlloc");
    else
      api.check(api.cuMemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
  } catch (...) {
    std::lock_guard<std::mutex> lock(mutex_);
    allocated_ -= size;
    throw;
  }
  void* const p = reinterpret_cast<void*>(address);
  if (!exact_) api.cuMemAdvise(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device_.number);
  prefetch(p, size);
  return {p, p, bytes};
}

Buffer ManagedMemory::allocate_host_resident(size_t bytes) {
  const Api& api = device_.api;
  void* p = nullptr;
  api.check(api.cuMemHostAlloc(&p, std::max<size_t>(bytes, 1), CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
            "cuMemHostAlloc");
  std::lock_guard<std::mutex> lock(mutex_);
  pinned_.insert(p);
  return {p, p, bytes};
}

void ManagedMemory::copy(void* to, const void* from, size_t bytes) const {
  device_.api.check(device_.api.cuMemcpy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes),
                    "cuMemcpy");
}

void ManagedMemory::release(const Buffer& buffer) noexcept {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (pinned_.erase(buffer.handle)) return void(device_.api.cuMemFreeHost(buffer.handle));
  }
  // cuMemFree waits for the GPU. At process exit, it fails if CUDA has already been shut down.
  if (device_.api.cuMemFree(reinterpret_cast<CUdeviceptr>(buffer.handle)) != CUDA_SUCCESS) return;
  std::lock_guard<std::mutex> lock(mutex_);
  allocated_ -= std::max<size_t>(buffer.size, 1);
}

size_t ManagedMemory::free_bytes() const {
  size_t free = 0, total = 0;
  device_.api.check(device_.api.cuMemGetInfo(&free, &total), "cuMemGetInfo");
  return saturating_sub(free, kReserve);
}

// This is only a hint. If it fails, pages migrate on their first access.
void ManagedMemory::prefetch(const void* address, size_t bytes) noexcept {
  if (!exact_) device_.api.cuMemPrefetchAsync(reinterpret_cast<CUdeviceptr>(address), bytes, device_.number, stream_);
}

}  // namespace mpsx::driver::cuda
