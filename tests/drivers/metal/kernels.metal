// Small kernels that reveal launch errors, because every argument and position affects the result.
#include <metal_stdlib>
using namespace metal;

kernel void fill(device float* out [[buffer(0)]], constant float& value [[buffer(1)]],
                 uint i [[thread_position_in_grid]]) {
  out[i] = value;
}

kernel void add(device float* out [[buffer(0)]], device const float* a [[buffer(1)]],
                device const float* b [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  out[i] = a[i] + b[i];
}

// The final state depends on the number and the order of dispatches.
kernel void advance(device uint* state [[buffer(0)]], constant uint& step [[buffer(1)]],
                    uint i [[thread_position_in_grid]]) {
  state[i] = state[i] * 1664525u + step;
}

kernel void positions(device uint* out [[buffer(0)]], uint3 at [[thread_position_in_grid]],
                      uint3 size [[threads_per_grid]]) {
  out[(at.z * size.y + at.y) * size.x + at.x] += at.x + 100 * at.y + 10000 * at.z + 1;
}

// Uses one threadgroup per row. Partial sums are in threadgroup memory.
kernel void row_sum(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                    constant uint& columns [[buffer(2)]], threadgroup float* parts [[threadgroup(0)]],
                    threadgroup float* total [[threadgroup(1)]], uint row [[threadgroup_position_in_grid]],
                    uint tid [[thread_index_in_threadgroup]], uint threads [[threads_per_threadgroup]]) {
  float sum = 0;
  for (uint i = tid; i < columns; i += threads) sum += in[row * columns + i];
  parts[tid] = sum;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  if (tid == 0) {
    total[0] = 0;
    for (uint t = 0; t < threads; ++t) total[0] += parts[t];
    out[row] = total[0];
  }
}

kernel void scale(device float* out [[buffer(0)]], device const float* factor [[buffer(1)]],
                  constant uint& has_factor [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  out[i] = has_factor ? out[i] * factor[i] : out[i] * 2;
}
