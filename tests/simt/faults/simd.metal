// Lanes read values from inactive lanes.
#include <metal_stdlib>
using namespace metal;

kernel void shuffle_in_branch(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                              uint lane [[thread_index_in_simdgroup]]) {
  float x = float(tid);
  if (lane < 16) x += simd_shuffle(x, ushort(lane + 16));  // fault: shuffle_in_branch
  out[tid] = x;
}

kernel void shuffle_down_in_branch(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                   uint lane [[thread_index_in_simdgroup]]) {
  float x = float(tid);
  if (lane != 9) {
    x += simd_shuffle_down(x, 1);  // fault: shuffle_down_in_branch
  }
  out[tid] = x;
}

kernel void shuffle_after_return(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                 uint lane [[thread_index_in_simdgroup]]) {
  if (lane >= 24) return;
  out[tid] = simd_shuffle_xor(float(tid), 8);  // fault: shuffle_after_return
}

kernel void broadcast_from_inactive_lane(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                                  uint lane [[thread_index_in_simdgroup]]) {
  float x = 0.0f;
  if (lane > 0) x = simd_broadcast(float(tid), 0);  // fault: broadcast_from_inactive_lane
  out[tid] = x;
}

// Correct: lanes read only from active lanes, and ignore values from lanes past the end of the SIMD group.
kernel void correct_simd_functions(device float* out [[buffer(0)]], uint tid [[thread_position_in_threadgroup]],
                       uint lane [[thread_index_in_simdgroup]], uint width [[threads_per_simdgroup]]) {
  float x = float(tid);
  for (ushort distance = width / 2; distance > 0; distance /= 2) x += simd_shuffle_down(x, distance);
  x = simd_broadcast_first(x);
  if (lane < 16) x += simd_shuffle_xor(float(lane), 1) + simd_sum(1.0f);
  if (lane > 3) x += simd_broadcast(x, 4);
  out[tid] = x;
}
