// Threads access the same threadgroup memory without a barrier in between.
#include <metal_stdlib>
using namespace metal;

kernel void read_of_adjacent_element(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] = float(tid);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  s[tid] = 2.0f * float(tid);    // fault: read_of_adjacent_element (whichever access comes second)
  out[tid] = s[(tid + 1) % 64];  // fault: read_of_adjacent_element
}

kernel void barrier_missing_in_loop(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] = float(tid);
  for (uint half_way = 32; half_way > 0; half_way /= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float x = s[tid];
    if (tid + half_way < 64) x += s[tid + half_way];  // fault: barrier_missing_in_loop
    s[tid] = x;  // fault: barrier_missing_in_loop
  }
  if (tid == 0) out[0] = s[0];
}

kernel void two_writers(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float last;
  last = float(tid);  // fault: two_writers
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = last;
}

kernel void simdgroup_barrier_is_too_small(device float* out [[buffer(0)]],
                                           uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] = 0.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  s[tid] = float(tid);  // fault: simdgroup_barrier_is_too_small
  simdgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = s[63 - tid];  // fault: simdgroup_barrier_is_too_small
}

kernel void barrier_for_other_memory(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] = float(tid);
  threadgroup_barrier(mem_flags::mem_device);
  out[tid] = s[tid ^ 1];  // fault: barrier_for_other_memory
}

kernel void bins_read_too_early(device uint* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup atomic_uint bins[8];
  if (tid < 8) atomic_store_explicit(&bins[tid], 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&bins[tid % 8], 1u, memory_order_relaxed);
  if (tid < 8) out[tid] = reinterpret_cast<threadgroup uint*>(bins)[tid];  // fault: bins_read_too_early
}

kernel void result_used_while_written(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float total;
  for (uint round = 0; round < 2; ++round) {
    if (tid == 0) total = float(round);  // fault: result_used_while_written
    threadgroup_barrier(mem_flags::mem_threadgroup);
    out[tid] = total;  // fault: result_used_while_written (a barrier is missing after this)
  }
}

// Correct: barriers, memory private to a SIMD group, elements of 1 and 2 bytes, equal values stored by several threads,
// and atomics.
kernel void correct_synchronization(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                        uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float s[64];
  threadgroup half small[64];
  threadgroup uchar tiny[64];
  threadgroup bool any;
  threadgroup atomic_uint bins[8];
  small[tid] = half(tid);
  tiny[tid] = uchar(tid);
  if (tid < 8) atomic_store_explicit(&bins[tid], 0u, memory_order_relaxed);
  any = true;
  s[tid] = float(tid);
  simdgroup_barrier(mem_flags::mem_threadgroup);
  float x = s[simd * 32 + (31 - lane)];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  atomic_fetch_add_explicit(&bins[tid % 8], 1u, memory_order_relaxed);
  for (uint half_way = 32; half_way > 0; half_way /= 2) {
    if (tid < half_way) s[tid] += s[tid + half_way];
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  x += s[0] + float(small[63 - tid]) + float(tiny[63 - tid]) + (any ? 1.0f : 0.0f);
  x += float(atomic_load_explicit(&bins[(tid + 1) % 8], memory_order_relaxed));
  out[tid] = x;
}
