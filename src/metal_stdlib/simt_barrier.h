// Barriers and fences for SIMT kernels.
#pragma once

namespace metal {
enum class mem_flags {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8
};
MPSX_FN constexpr mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
MPSX_FN void threadgroup_barrier(mem_flags flags, MPSX_CALL_SITE) {
  mpsx_simt_threadgroup_barrier(unsigned(flags), mpsx_file, mpsx_line);
}
MPSX_FN void threadgroup_barrier(mem_flags flags, thread_scope, MPSX_CALL_SITE) {
  mpsx_simt_threadgroup_barrier(unsigned(flags), mpsx_file, mpsx_line);
}
MPSX_FN void simdgroup_barrier(mem_flags flags, MPSX_CALL_SITE) {
  mpsx_simt_simdgroup_barrier(unsigned(flags), mpsx_file, mpsx_line);
}
MPSX_FN void atomic_thread_fence(mem_flags flags, memory_order, thread_scope scope = thread_scope_device) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (scope == thread_scope_device && (unsigned(flags) & MPSX_MEM_DEVICE)) mpsx_simt_device_fence();
}
}  // namespace metal
