// Converts the arguments of a dispatch to kernel parameters.
#pragma once

#include <algorithm>
#include <array>

#include "driver/cuda/kernels.h"
#include "driver/dispatch_check.h"

namespace mpsx::driver::cuda {

// The last parameter of every entry point (src/metal_stdlib/cuda/entry.h).
struct Grid {
  uint32_t threads[3], groups[3], group[3], first[3];
};

// CUDA allows fewer threadgroups than Metal along y and z, so larger grids are split into several launches. Calls
// `launch(grid, x, y, z)` with the number of threadgroups of each.
template <typename F>
void for_each_part(const Dispatch& dispatch, F&& launch) {
  constexpr uint32_t kMaxGroups[3] = {0x7fffffffu, 65535, 65535};
  const uint32_t units[3] = {dispatch.grid.x, dispatch.grid.y, dispatch.grid.z};
  const uint32_t group[3] = {dispatch.group.x, dispatch.group.y, dispatch.group.z};
  Grid grid;
  for (int d = 0; d < 3; ++d) {
    grid.group[d] = group[d];
    grid.groups[d] = dispatch.by_threads ? uint32_t((uint64_t(units[d]) + group[d] - 1) / group[d]) : units[d];
    grid.threads[d] = dispatch.by_threads ? units[d] : units[d] * group[d];
  }
  uint32_t* const at = grid.first;
  const auto part = [&](int d) { return std::min(grid.groups[d] - at[d], kMaxGroups[d]); };
  for (at[2] = 0; at[2] < grid.groups[2]; at[2] += part(2))
    for (at[1] = 0; at[1] < grid.groups[1]; at[1] += part(1))
      for (at[0] = 0; at[0] < grid.groups[0]; at[0] += part(0)) launch(grid, part(0), part(1), part(2));
}

// Returns the dispatch with the kernel's additional threads. They follow the others, so such kernels have
// one-dimensional threadgroups, and a grid of complete ones.
inline Dispatch with_additional_threads(const CudaKernel& kernel, Dispatch dispatch) {
  if (kernel.additional_threads == 0) return dispatch;
  if (dispatch.group.y * dispatch.group.z != 1 || (dispatch.by_threads && dispatch.grid.x % dispatch.group.x != 0))
    throw Error(kernel.name + ": expected complete, one-dimensional threadgroups");
  if (dispatch.by_threads) dispatch.grid.x += dispatch.grid.x / dispatch.group.x * kernel.additional_threads;
  dispatch.group.x += kernel.additional_threads;
  return dispatch;
}

// Returns the number of threadgroups of all parts.
inline int64_t threadgroups(const Dispatch& dispatch) {
  int64_t count = 0;
  for_each_part(dispatch, [&](const Grid&, int64_t x, int64_t y, int64_t z) { count += x * y * z; });
  return count;
}

// A ring buffer in pinned memory for arguments that kernels read through a pointer. The GPU reads them directly.
class UploadRing {
 public:
  explicit UploadRing(const Device&, size_t bytes = size_t(1) << 20);
  ~UploadRing();
  UploadRing(const UploadRing&) = delete;
  UploadRing& operator=(const UploadRing&) = delete;
  // Returns null if the ring is full. Call reset() when all submitted work has completed.
  const void* put(const void* data, size_t bytes);
  void reset(size_t used = 0) { used_ = used; }
  size_t used() const { return used_; }
  // Returns how much of the ring a value of this size uses.
  static constexpr size_t padded_size(size_t bytes) { return (bytes + 63) / 64 * 64; }

 private:
  const Device& device_;
  const size_t size_;
  char* ring_ = nullptr;
  size_t used_ = 0;
};

// Throws Error if Metal would reject the dispatch, or if the kernel expects more buffers than are given.
void check(const CudaKernel&, const Argument* arguments, size_t count, const Dispatch&);

class Parameters {
 public:
  // `wait()` must wait for all earlier dispatches.
  template <typename Wait>
  Parameters(const CudaKernel&, const Argument* arguments, size_t count, const Dispatch&, const Device&, UploadRing&,
             Wait&& wait);

  void** get(Grid& grid) {
    values_[count_] = &grid;
    return values_.data();
  }
  uint32_t threadgroup_bytes() const { return threadgroup_bytes_; }
  // Whether a multiprocessor can run only one of the threadgroups.
  bool fills_processor(const CudaKernel& kernel, const Device& device) const {
    return threadgroup_bytes_ + kernel.static_threadgroup_bytes > uint32_t(device.shared_memory) / 2;
  }
  // Throws Error if the kernel needs more shared memory than the GPU has.
  void check_shared_memory(const CudaKernel&, const Device&) const;

 private:
  static constexpr size_t kMaxParameters = 2 * kMaxBuffers + 1;
  void* keep(const void* address) { return &(addresses_[count_] = address); }
  void* padded(const void* data, size_t given, size_t wanted);

  std::array<void*, kMaxParameters> values_;
  std::array<const void*, kMaxParameters> addresses_;
  std::array<uint32_t, kMaxBuffers> offsets_;
  std::vector<std::unique_ptr<char[]>> copies_;
  size_t count_ = 0;
  uint32_t threadgroup_bytes_ = 0;
};

template <typename Wait>
Parameters::Parameters(const CudaKernel& kernel, const Argument* arguments, size_t count, const Dispatch& dispatch,
                       const Device& device, UploadRing& upload, Wait&& wait)
    : threadgroup_bytes_(uint32_t(round_up_threadgroup_memory(kernel.staging_bytes(
          uint32_t(dispatch.group.count()), kernel.max_staging && threadgroups(dispatch) <= device.processors)))) {
  std::array<const Argument*, kMaxBuffers> buffers{};
  size_t given = 0, locals = 0;
  for (size_t i = 0; i < count; ++i) {
    const Argument& a = arguments[i];
    if (a.kind != Argument::Kind::threadgroup) {
      buffers[given++] = &a;
      continue;
    }
    offsets_[locals++] = threadgroup_bytes_;
    threadgroup_bytes_ += uint32_t(round_up_threadgroup_memory(a.size));
  }
  for (const Parameter& p : kernel.parameters) {
    if (p.kind == Parameter::Kind::threadgroup) {
      if (p.index >= locals)
        throw Error(kernel.name + ": missing argument [[threadgroup(" + std::to_string(p.index) + ")]]");
      values_[count_] = &offsets_[p.index];
    } else {
      const Argument& a = *buffers[p.index];
      const bool in_memory = a.kind == Argument::Kind::buffer;
      const void* address = a.data && in_memory ? static_cast<const char*>(a.data) + a.size : a.data;
      if (p.kind == Parameter::Kind::value) {
        // Earlier kernels may still be writing to the buffer.
        if (in_memory && address) wait();
        values_[count_] = !address                         ? padded(nullptr, 0, p.bytes)
                          : in_memory || a.size >= p.bytes ? const_cast<void*>(address)
                                                           : padded(address, a.size, p.bytes);
      } else {
        if (!in_memory) {
          const void* const data = address;
          address = upload.put(data, a.size);
          if (!address) {
            wait();
            upload.reset();
            address = upload.put(data, a.size);
          }
        }
        values_[count_] = keep(address);
      }
    }
    ++count_;
  }
}

}  // namespace mpsx::driver::cuda
