// Barriers, SIMD groups and threadgroup memory on NVIDIA GPUs, where a SIMD group is a warp. If MPSX_CUDA is defined,
// this file is included instead of ../simt.h.
#pragma once

#define MPSX_INLINE __attribute__((always_inline))
#define MPSX_CALL_SITE const char *mpsx_file = nullptr, int mpsx_line = 0
#define MPSX_UNCHECKED_SPACE
#define MPSX_SIMT_ENTRY                                                                   \
  void* const* const mpsx_args = mpsx_plain_args;                                         \
  const mpsx_launch* const mpsx_this_launch = mpsx_plain_launch;                          \
  const mpsx_thread* const mpsx_this_thread = mpsx_plain_thread;                          \
  const mpsx_threadgroup* const mpsx_this_group = mpsx_this_thread->group;                \
  (void)mpsx_args, (void)mpsx_this_launch, (void)mpsx_this_thread, (void)mpsx_this_group;

// Dynamic shared memory. It holds the memory for tensor operations, followed by the memory of [[threadgroup(n)]]
// arguments. Its size is set at launch.
extern "C" __attribute__((address_space(3), aligned(16))) unsigned char mpsx_dynamic_memory[];

namespace mpsx {
// Returns the memory of the threadgroup variable that the source file numbers KEY. As in Metal, it is uninitialized.
template <class V, unsigned KEY>
MPSX_FN V& threadgroup_variable(const char*) {
  static __attribute__((address_space(3), loader_uninitialized, aligned(16))) unsigned char memory[sizeof(V)];
  // Hide the constant address from LLVM. Otherwise LLVM would lose its alignment and fail to merge adjacent accesses.
  unsigned zero;
  __asm__("mov.u32 %0, 0;" : "=r"(zero));
  return *(V*)__builtin_assume_aligned((unsigned char*)memory + zero, 16);
}
}  // namespace mpsx

#include "lanes.h"

namespace metal {
enum class mem_flags {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8
};
MPSX_FN constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
// bar.sync orders all memory accesses of the threadgroup, so it satisfies every flag.
MPSX_FN void threadgroup_barrier(mem_flags) { __syncthreads(); }
MPSX_FN void threadgroup_barrier(mem_flags, thread_scope) { __syncthreads(); }
// Every lane that has not exited must call this.
MPSX_FN void simdgroup_barrier(mem_flags) { __nvvm_bar_warp_sync(~0u); }
MPSX_FN void simdgroup_barrier(mem_flags, thread_scope) { __nvvm_bar_warp_sync(~0u); }
MPSX_FN void atomic_thread_fence(mem_flags, memory_order, thread_scope = thread_scope_device) { __nvvm_membar_gl(); }
}  // namespace metal

// matrix.h and simt_quad.h use definitions from simt_simd.h.
#include "../simt_simd.h"
#include "../simt_quad.h"
#include "matrix.h"
// clang-format on
