#include "driver/cuda/arguments.h"

#include <cstring>

namespace mpsx::driver::cuda {

UploadRing::UploadRing(const Device& device, size_t bytes) : device_(device), size_(bytes) {
  void* memory = nullptr;
  device_.api.check(device_.api.cuMemHostAlloc(&memory, size_, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                    "cuMemHostAlloc");
  ring_ = static_cast<char*>(memory);
}
UploadRing::~UploadRing() { device_.api.cuMemFreeHost(ring_); }

const void* UploadRing::put(const void* data, size_t bytes) {
  if (used_ + bytes > size_) return nullptr;
  char* const at = ring_ + used_;
  std::memcpy(at, data, bytes);
  used_ += padded_size(bytes);
  return at;
}

void check(const CudaKernel& kernel, const Argument* arguments, size_t count, const Dispatch& dispatch) {
  const size_t buffers = check_dispatch(kernel, arguments, count, dispatch);
  if (buffers < kernel.buffers)
    throw Error(kernel.name + ": expected " + std::to_string(kernel.buffers) + " buffers, got " +
                std::to_string(buffers));
}

void Parameters::check_shared_memory(const CudaKernel& kernel, const Device& device) const {
  const uint64_t shared = uint64_t(threadgroup_bytes_) + kernel.static_threadgroup_bytes;
  if (shared > uint64_t(device.shared_memory))
    throw Error(kernel.name + ": expected at most " + std::to_string(device.shared_memory) +
                " bytes for tensor operations and threadgroup memory, got " + std::to_string(shared));
}

// Copies a struct and zeros the bytes at its end, which launchers may omit.
void* Parameters::padded(const void* data, size_t given, size_t wanted) {
  auto& copy = copies_.emplace_back(new char[wanted]());
  if (given) std::memcpy(copy.get(), data, given);
  return copy.get();
}

}  // namespace mpsx::driver::cuda
