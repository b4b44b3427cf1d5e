// Metal's limits on a dispatch. Every driver that runs kernels with several threads per threadgroup enforces them.
#pragma once

#include <string>

#include "driver/driver.h"

namespace mpsx::driver {

constexpr uint32_t kMaxBuffers = 31;
constexpr size_t kMaxBytesArgument = 4096;       // for setBytes
constexpr size_t kMaxThreadgroupMemory = 32768;  // maximum in total, from Metal's feature set tables

// In Metal, the size of a [[threadgroup(n)]] argument must be a multiple of 16 bytes.
constexpr size_t round_up_threadgroup_memory(size_t bytes) { return (bytes + 15) / 16 * 16; }

// Throws Error if Metal would reject the dispatch. Checks the number of buffers, the sizes of arguments passed by
// value, the threadgroup memory, the threadgroup size and the grid. Returns the number of buffers.
inline size_t check_dispatch(const Kernel& kernel, const Argument* arguments, size_t count, const Dispatch& dispatch,
                             size_t max_threadgroup_memory = kMaxThreadgroupMemory) {
  size_t buffers = 0, threadgroups = 0, threadgroup_memory = kernel.static_threadgroup_bytes;
  for (size_t i = 0; i < count; ++i) {
    const Argument& a = arguments[i];
    if (a.kind == Argument::Kind::threadgroup) {
      threadgroup_memory += round_up_threadgroup_memory(a.size);
      ++threadgroups;
      continue;
    }
    ++buffers;
    if (a.kind == Argument::Kind::bytes && (a.size == 0 || a.size > kMaxBytesArgument))
      throw Error(kernel.name + ": expected 1 to " + std::to_string(kMaxBytesArgument) +
                  " bytes for an argument passed by value, got " + std::to_string(a.size));
  }
  if (buffers > kMaxBuffers || threadgroups > kMaxBuffers) throw Error(kernel.name + ": expected at most 31 buffers");
  if (threadgroup_memory > max_threadgroup_memory)
    throw Error(kernel.name + ": expected at most " + std::to_string(max_threadgroup_memory) +
                " bytes of threadgroup memory, got " + std::to_string(threadgroup_memory));
  const Size &grid = dispatch.grid, &group = dispatch.group;
  const auto text = [](const Size& s) {
    return std::to_string(s.x) + "x" + std::to_string(s.y) + "x" + std::to_string(s.z);
  };
  if (group.count() == 0 || group.count() > kernel.max_threads)
    throw Error(kernel.name + ": expected 1 to " + std::to_string(kernel.max_threads) +
                " threads per threadgroup, got " + text(group) + " = " + std::to_string(group.count()));
  const uint64_t dimensions[][2] = {{grid.x, group.x}, {grid.y, group.y}, {grid.z, group.z}};
  for (const auto& [g, t] : dimensions)
    if (g * (dispatch.by_threads ? 1 : t) > UINT32_MAX)
      throw Error(kernel.name + ": expected a grid of at most 4294967295 threads per dimension, got threadgroups " +
                  text(grid) + " of " + text(group) + " threads");
  return buffers;
}

}  // namespace mpsx::driver
