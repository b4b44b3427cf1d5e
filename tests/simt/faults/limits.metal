// Kernels that can exceed the limits of a pipeline.
#include <metal_stdlib>
using namespace metal;

[[max_total_threads_per_threadgroup(64)]]
kernel void at_most_64(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]],
                       uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float s[64];
  s[tid] = float(i);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = s[tid];
}

kernel void sixteen_kibibytes(device float* out [[buffer(0)]], threadgroup float* s [[threadgroup(0)]],
                              uint tid [[thread_position_in_threadgroup]]) {
  threadgroup float more[4096];
  more[tid] = s[tid] = float(tid);
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[tid] = more[tid] + s[tid];
}
