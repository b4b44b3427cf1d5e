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

[[noreturn, gnu::cold]] inline void reject(const Kernel& kernel, const char* expected, uint64_t limit, const char* of,
                                           uint64_t got) {
  throw Error(kernel.name + ": expected " + expected + std::to_string(limit) + of + std::to_string(got));
}
[[noreturn, gnu::cold]] inline void reject_size(const Kernel& kernel, const Dispatch& dispatch) {
  const auto text = [](const Size& s) {
    return std::to_string(s.x) + "x" + std::to_string(s.y) + "x" + std::to_string(s.z);
  };
  const uint64_t threads = dispatch.group.count();
  if (threads == 0 || threads > kernel.max_threads)
    throw Error(kernel.name + ": expected 1 to " + std::to_string(kernel.max_threads) +
                " threads per threadgroup, got " + text(dispatch.group) + " = " + std::to_string(threads));
  throw Error(kernel.name + ": expected a grid of at most 4294967295 threads per dimension, got threadgroups " +
              text(dispatch.grid) + " of " + text(dispatch.group) + " threads");
}

// Throws Error if Metal would reject the dispatch. Checks the number of buffers, the sizes of arguments passed by
// value, the threadgroup memory, the threadgroup size and the grid. Calls `check_buffer` with each buffer argument.
// Returns the number of buffers.
template <typename F = void (*)(const Argument&)>
size_t check_dispatch(
    const Kernel& kernel, const Argument* arguments, size_t count, const Dispatch& dispatch,
    size_t max_threadgroup_memory = kMaxThreadgroupMemory, F&& check_buffer = [](const Argument&) {}) {
  size_t threadgroups = 0, threadgroup_memory = kernel.static_threadgroup_bytes;
  for (const Argument *a = arguments, *end = a + count; a != end; ++a) {
    if (a->kind == Argument::Kind::buffer) {
      check_buffer(*a);
    } else if (a->kind == Argument::Kind::threadgroup) {
      threadgroup_memory += round_up_threadgroup_memory(a->size);
      ++threadgroups;
    } else if (a->size == 0 || a->size > kMaxBytesArgument) {
      reject(kernel, "1 to ", kMaxBytesArgument, " bytes for an argument passed by value, got ", a->size);
    }
  }
  const size_t buffers = count - threadgroups;
  if (buffers > kMaxBuffers || threadgroups > kMaxBuffers) throw Error(kernel.name + ": expected at most 31 buffers");
  if (threadgroup_memory > max_threadgroup_memory)
    reject(kernel, "at most ", max_threadgroup_memory, " bytes of threadgroup memory, got ", threadgroup_memory);
  const Size &grid = dispatch.grid, &group = dispatch.group;
  const uint64_t threads = group.count();
  if (threads == 0 || threads > kernel.max_threads) reject_size(kernel, dispatch);
  const auto too_large = [](uint64_t groups, uint64_t size) { return groups * size > UINT32_MAX; };
  if (!dispatch.by_threads && (too_large(grid.x, group.x) || too_large(grid.y, group.y) || too_large(grid.z, group.z)))
    reject_size(kernel, dispatch);
  return buffers;
}

}  // namespace mpsx::driver
