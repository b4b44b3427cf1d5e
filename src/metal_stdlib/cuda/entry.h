// Building blocks of the entry points that msl/codegen/cuda.py generates.
#pragma once

// The last parameter of every entry point. It describes one launch. A grid that exceeds CUDA's limits is split into
// several launches.
struct mpsx_cuda_grid {
  unsigned threads[3], groups[3];  // size of the whole grid in threads and in threadgroups
  unsigned group[3];               // dispatched threads per threadgroup
  unsigned first[3];               // position of this launch's first threadgroup
};

namespace mpsx {
// The GPU reads kernel parameters through its constant cache, so arguments of type `constant T&` are passed by value.
// CUDA limits all parameters of a kernel to 32,764 bytes. Arguments that exceed an equal share are passed by address,
// in pinned memory: every threadgroup then reads them from the host.
constexpr unsigned long kInlineBytes = 31 * 1024;
template <unsigned long SIZE, unsigned long ALIGNMENT>
struct alignas(ALIGNMENT) inline_bytes {
  unsigned char bytes[SIZE];
};
template <class P, unsigned ARGUMENTS>
struct kernel_argument {
  typedef void* type;
};
template <class T, unsigned ARGUMENTS>
struct kernel_argument<const T&, ARGUMENTS> {
  typedef metal::conditional_t<(sizeof(T) <= kInlineBytes / ARGUMENTS), inline_bytes<sizeof(T), alignof(T)>, void*>
      type;
};
MPSX_FN void* argument_address(void* p) { return p; }
template <unsigned long SIZE, unsigned long ALIGNMENT>
MPSX_FN void* argument_address(const inline_bytes<SIZE, ALIGNMENT>& value) {
  return const_cast<unsigned char*>(value.bytes);
}
MPSX_FN void* dynamic_memory(unsigned offset) { return (void*)(mpsx_dynamic_memory + offset); }

// Sets the thread's position (kernel_abi.h). Blocks are one-dimensional and always as large as a full threadgroup. This
// way, threads and SIMD groups are numbered as in Metal even in the smaller threadgroups at the end of the grid.
// Returns false for the surplus threads of such a block.
MPSX_FN bool set_position(const mpsx_cuda_grid& grid, mpsx_launch& launch, mpsx_threadgroup& group,
                          mpsx_thread& thread) {
  const unsigned block[3] = {unsigned(__nvvm_read_ptx_sreg_ctaid_x()), unsigned(__nvvm_read_ptx_sreg_ctaid_y()),
                             unsigned(__nvvm_read_ptx_sreg_ctaid_z())};
  launch.constants = nullptr;
#pragma unroll
  for (unsigned d = 0; d < 3; ++d) {
    launch.threads[d] = grid.threads[d], launch.groups[d] = grid.groups[d], launch.group[d] = grid.group[d];
    group.position[d] = grid.first[d] + block[d];
    group.origin[d] = group.position[d] * grid.group[d];
    const unsigned left = grid.threads[d] - group.origin[d];
    group.size[d] = left < grid.group[d] ? left : grid.group[d];
  }
  group.threads = group.size[0] * group.size[1] * group.size[2];
  group.simdgroups = (group.threads + MPSX_SIMD_WIDTH - 1) / MPSX_SIMD_WIDTH;
  thread.index = unsigned(__nvvm_read_ptx_sreg_tid_x());
  thread.index = (thread.index & ~31u) | metal_lane(thread.index & 31u);
  thread.lane = thread.index % MPSX_SIMD_WIDTH;
  thread.simdgroup = thread.index / MPSX_SIMD_WIDTH;
  thread.local[0] = thread.index, thread.local[1] = 0, thread.local[2] = 0;
  if (grid.group[1] * grid.group[2] != 1) {
    const unsigned row = thread.index / group.size[0];
    thread.local[0] = thread.index - row * group.size[0];
    thread.local[2] = row / group.size[1];
    thread.local[1] = row - thread.local[2] * group.size[1];
  }
  thread.group = &group;
  return thread.index < group.threads;
}
}  // namespace mpsx
