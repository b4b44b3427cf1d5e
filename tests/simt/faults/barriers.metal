// Barriers that some threads skip, or that threads reach on different lines. Errors must name a line marked "fault:".
#include <metal_stdlib>
using namespace metal;

kernel void barrier_in_branch(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  if (tid < 40) {
    threadgroup_barrier(mem_flags::mem_threadgroup);  // fault: barrier_in_branch
  }
  out[tid] = 1.0f;
}

kernel void barrier_after_return(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  if (tid == 7) return;
  out[tid] = 1.0f;
  threadgroup_barrier(mem_flags::mem_device);  // fault: barrier_after_return
}

kernel void barrier_in_uneven_loop(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  for (uint i = 0; i <= tid / 32; ++i) {
    threadgroup_barrier(mem_flags::mem_threadgroup);  // fault: barrier_in_uneven_loop
    out[tid] = float(i);
  }
}

kernel void barriers_apart(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  if (tid % 2 == 0) {
    out[tid] = 0.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);  // fault: barriers_apart
  } else {
    out[tid] = 1.0f;
    threadgroup_barrier(mem_flags::mem_threadgroup);  // fault: barriers_apart
  }
}

kernel void simdgroup_barrier_in_branch(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                        uint lane [[thread_index_in_simdgroup]]) {
  if (lane < 16) {
    simdgroup_barrier(mem_flags::mem_threadgroup);  // fault: simdgroup_barrier_in_branch
  }
  out[tid] = 1.0f;
}

// Correct: all threads take the same branches, run the same number of iterations, and call the same functions. SIMD
// groups may take different branches around a simdgroup_barrier.
static void meet(threadgroup float* s, uint tid) {
  s[tid] = float(tid);
  threadgroup_barrier(mem_flags::mem_threadgroup);
}
kernel void correct_barriers(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                           uint n [[threads_per_threadgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                           uint group [[threadgroup_position_in_grid]]) {
  threadgroup float s[64];
  meet(s, tid);
  float sum = 0.0f;
  for (uint i = 1; i <= 3; ++i) {
    sum += s[(tid + i) % n];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  if (group == 0) threadgroup_barrier(mem_flags::mem_none);
  if (simd % 2 == 0)
    simdgroup_barrier(mem_flags::mem_threadgroup);
  else
    sum += 1.0f;
  out[group * n + tid] = sum;
}
