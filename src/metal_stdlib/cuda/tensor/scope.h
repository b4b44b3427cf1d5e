// The threads that execute a tensor operation on NVIDIA GPUs. Threads have their hardware indices here, because layouts
// match tensor core fragments.
#pragma once

namespace mpsx {
template <class Scope>
MPSX_FN int scope_thread() {
  if constexpr (scope_size<Scope>::threads == 1) return 0;
  const unsigned thread = unsigned(__nvvm_read_ptx_sreg_tid_x());
  return int(scope_size<Scope>::simdgroups == 1 ? thread & 31u : thread);
}
MPSX_FN unsigned layout_seed() { return 0; }
// Return the row and the group of four columns that a lane holds in a 16x16 fragment (tensor/layout.h). lanes.h
// permutes the lane indices that kernels see to match this layout.
#ifdef MPSX_THREAD_ELEMENTS
MPSX_FN int fragment_row(int lane) { return lane / 4; }
MPSX_FN int fragment_lane(int row, int group) { return row * 4 + group; }
#else
MPSX_FN int fragment_row(int lane) { return (lane >> 2 & 1) | (lane >> 1 & 4) | (lane >> 3 & 2); }
MPSX_FN int fragment_lane(int row, int group) { return (row & 1) << 2 | (row & 4) << 1 | (row & 2) << 3 | group; }
#endif
MPSX_FN int fragment_column_group(int lane) { return lane % 4; }

// A barrier for the threads of the scope that also orders their accesses to threadgroup memory.
template <class Scope>
MPSX_FN void scope_barrier() {
  if constexpr (scope_size<Scope>::simdgroups == 1) __nvvm_bar_warp_sync(~0u);
  if constexpr (scope_size<Scope>::simdgroups > 1) __syncthreads();
}

// Returns the address of an operation's threadgroup memory, which is at the beginning of dynamic shared memory. In a
// SIMD-group scope, each SIMD group has its own region, as large as the kernel's largest operation needs. The address
// is rounded up to 1024 bytes for the 128-byte swizzle, because CUDA aligns dynamic shared memory to only 16 bytes if
// it follows a kernel's variables, even if a larger alignment is declared. MAX_BYTES is the number of bytes that the
// operation can use if there is only one threadgroup per multiprocessor. msl/ptx.py replaces these pseudo-instructions,
// and writes the sizes, with padding, and the number of threads to the library's index for the driver.
template <class Scope, unsigned BYTES, unsigned MAX_BYTES = BYTES>
MPSX_FN unsigned staging_memory() {
  const unsigned base = unsigned((unsigned long)(__attribute__((address_space(3))) unsigned char*)mpsx_dynamic_memory);
  if constexpr (!metal::is_same_v<Scope, metal::execution_simdgroup>) {
    __asm__ volatile("mpsx.staging %0, %1, %2;" ::"n"(BYTES), "n"(MAX_BYTES), "n"(scope_size<Scope>::threads));
    return (base + 1023u) & ~1023u;
  }
  unsigned bytes;
  __asm__ volatile("mpsx.simdgroup_staging %0, %1;" : "=r"(bytes) : "n"(BYTES));
  return base + unsigned(__nvvm_read_ptx_sreg_tid_x()) / 32u * bytes;
}
// Returns the number of bytes at staging_memory(), or 0 if threadgroup buffers follow, so that the kernel cannot know
// it.
MPSX_FN unsigned staging_size() {
  unsigned bytes;
  __asm__("mpsx.staging_size %0;" : "=r"(bytes));
  return bytes < 1024 ? 0 : bytes - 1024;  // without the padding, even if there is none
}
}  // namespace mpsx
