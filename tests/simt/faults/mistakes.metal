// Mistakes that are common in real kernels with tiles, scans, histograms and partial sums.
#include <metal_stdlib>
using namespace metal;

kernel void return_at_the_grids_end(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                    uint i [[thread_position_in_grid]]) {
  threadgroup float s[64];
  if (i >= 50) return;
  s[tid] = float(i);
  threadgroup_barrier(mem_flags::mem_threadgroup);  // fault: return_at_the_grids_end
  out[i] = s[(tid + 1) % 50];
}

kernel void two_tiles_no_barrier(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float tiles[2][64];
  float sum = 0.0f;
  tiles[0][tid] = 1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  for (uint k = 0; k < 4; ++k) {
    tiles[(k + 1) % 2][tid] = float(k);  // fault: two_tiles_no_barrier
    sum += tiles[k % 2][63 - tid];       // fault: two_tiles_no_barrier
  }
  out[tid] = sum;
}

kernel void scan_in_place(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] = 1.0f;
  for (uint step = 1; step < 64; step *= 2) {
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (tid >= step) {
      s[tid] += s[tid - step];  // fault: scan_in_place
    }
  }
  out[tid] = s[tid];
}

kernel void histogram_without_atomics(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup uint bins[8];
  if (tid < 8) bins[tid] = 0;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  bins[tid % 8] += 1;  // fault: histogram_without_atomics
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid < 8) out[tid] = float(bins[tid]);
}

kernel void bins_cleared_by_others(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup uint bins[8];
  if (tid < 8) bins[tid] = 0;  // fault: bins_cleared_by_others (a barrier is missing after this)
  atomic_fetch_add_explicit((threadgroup atomic_uint*)&bins[tid % 8], 1u,  // fault: bins_cleared_by_others
                            memory_order_relaxed);                        // fault: bins_cleared_by_others
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid < 8) out[tid] = float(bins[tid]);
}

kernel void partial_sums_at_once(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                 uint lane [[thread_index_in_simdgroup]], uint simd [[simdgroup_index_in_threadgroup]],
                                 uint simds [[simdgroups_per_threadgroup]]) {
  threadgroup float partial[32];
  const float sum = simd_sum(float(tid));
  if (lane == 0) partial[simd] = sum;  // fault: partial_sums_at_once
  if (tid == 0) {
    float total = 0.0f;
    for (uint i = 0; i < simds; ++i) {
      total += partial[i];  // fault: partial_sums_at_once
    }
    out[0] = total;
  }
}

kernel void sums_of_all_simdgroups(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                   uint lane [[thread_index_in_simdgroup]],
                                   uint simd [[simdgroup_index_in_threadgroup]]) {
  threadgroup float partial[32];
  const float sum = simd_sum(float(tid));
  if (lane == 0) partial[simd] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (simd == 0) {
    const float total = simd_sum(partial[lane]);  // fault: sums_of_all_simdgroups
    out[lane] = total;
  }
}

static void store_and_meet(threadgroup float* s, uint tid, float x) {
  s[tid] = x;
  threadgroup_barrier(mem_flags::mem_threadgroup);  // fault: function_from_two_branches
}
kernel void function_from_two_branches(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  if (tid % 2 == 0)
    store_and_meet(s, tid, 1.0f);
  else
    store_and_meet(s, tid, 2.0f);
  out[tid] = s[63 - tid];
}

static float left_of(const threadgroup float* s, uint i) {
  return s[int(i) - 1];  // fault: left_of_the_tile
}
kernel void left_of_the_tile(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] = 1.0f;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = left_of(s, tid);
}

kernel void until_done(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  float x = float(tid);
  while (x > 1.0f) {
    x *= 0.5f;
    threadgroup_barrier(mem_flags::mem_threadgroup);  // fault: until_done
  }
  out[tid] = x;
}

kernel void next_tile_too_early(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float tile[8][8];
  float sum = 0.0f;
  for (uint k = 0; k < 3; ++k) {
    tile[tid / 8][tid % 8] = float(k);  // fault: next_tile_too_early
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint i = 0; i < 8; ++i) sum += tile[i][tid % 8];  // fault: next_tile_too_early
  }
  out[tid] = sum;
}

kernel void waits_for_a_flag(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]]) {
  threadgroup atomic_uint flag;
  if (tid == 0) atomic_store_explicit(&flag, 0u, memory_order_relaxed);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 5) atomic_store_explicit(&flag, 1u, memory_order_relaxed);
  while (atomic_load_explicit(&flag, memory_order_relaxed) == 0u) {  // fault: waits_for_a_flag
  }
  out[tid] = 1.0f;
}
