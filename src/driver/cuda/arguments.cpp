#include "driver/cuda/arguments.h"

#include <cstring>

namespace mpsx::driver::cuda {

Upload::Upload(const Device& device) : device_(device) {
  void* memory = nullptr;
  device_.api.check(device_.api.cuMemHostAlloc(&memory, kBytes, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP),
                    "cuMemHostAlloc");
  ring_ = static_cast<char*>(memory);
}
Upload::~Upload() { device_.api.cuMemFreeHost(ring_); }

const void* Upload::put(const void* data, size_t bytes) {
  if (used_ + bytes > kBytes) return nullptr;
  char* const at = ring_ + used_;
  std::memcpy(at, data, bytes);
  used_ += (bytes + 63) / 64 * 64;
  return at;
}

void check(const CudaKernel& kernel, const Argument* arguments, size_t count, const Dispatch& dispatch) {
  size_t buffers = 0, locals = 0, threadgroup = kernel.static_threadgroup_bytes;
  for (size_t i = 0; i < count; ++i) {
    const Argument& a = arguments[i];
    if (a.kind == Argument::Kind::threadgroup) {
      threadgroup += (a.size + 15) / 16 * 16;
      ++locals;
      continue;
    }
    ++buffers;
    if (a.kind == Argument::Kind::bytes && (a.size == 0 || a.size > 4096))
      throw Error(kernel.name + ": an argument by value has 1 to 4096 bytes, got " + std::to_string(a.size));
  }
  if (buffers > kMaxBuffers || locals > kMaxBuffers) throw Error(kernel.name + ": more than 31 buffers");
  if (buffers < kernel.buffers)
    throw Error(kernel.name + ": expects " + std::to_string(kernel.buffers) + " buffers, got " +
                std::to_string(buffers));
  if (threadgroup > kMaxThreadgroupBytes)
    throw Error(kernel.name + ": needs " + std::to_string(threadgroup) + " bytes of threadgroup memory, the limit is " +
                std::to_string(kMaxThreadgroupBytes));
  const uint64_t axes[][2] = {
      {dispatch.grid.x, dispatch.group.x}, {dispatch.grid.y, dispatch.group.y}, {dispatch.grid.z, dispatch.group.z}};
  for (const auto& [grid, group] : axes)
    if (grid * (dispatch.by_threads ? 1 : group) > UINT32_MAX)
      throw Error(kernel.name + ": a grid has at most 4294967295 threads an axis, got " + std::to_string(grid * group));
  if (dispatch.group.count() == 0 || dispatch.group.count() > kernel.max_threads)
    throw Error(kernel.name + ": expected 1 to " + std::to_string(kernel.max_threads) +
                " threads per threadgroup, got " + std::to_string(dispatch.group.count()));
}

// A struct may end with bytes that a launcher does not give.
void* Parameters::padded(const void* data, size_t given, size_t wanted) {
  auto& copy = copies_.emplace_back(new char[wanted]());
  if (given) std::memcpy(copy.get(), data, given);
  return copy.get();
}

}  // namespace mpsx::driver::cuda
