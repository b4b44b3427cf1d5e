// One kernel for each feature that PTX handles in a special way.
#include <metal_stdlib>
using namespace metal;

struct Params {
  uint n;
  float weights[5];
};

struct Table {
  float values[1024];
};
kernel void table(device float* out [[buffer(0)]], constant Table& t [[buffer(1)]],
                  uint gid [[thread_position_in_grid]]) {
  out[gid] = t.values[gid];
}

kernel void values(device float* out [[buffer(0)]], constant Params& p [[buffer(2)]],
                   device const float* bias [[buffer(3)]],
                   uint i [[thread_position_in_grid]]) {
  if (i >= p.n) return;
  out[i] = p.weights[i % 5] + bias[i];
}

[[max_total_threads_per_threadgroup(256)]] kernel void shared(device int* out [[buffer(0)]],
                                                              threadgroup int* given [[threadgroup(1)]],
                                                              uint i [[thread_index_in_threadgroup]],
                                                              uint g [[threadgroup_position_in_grid]]) {
  threadgroup int own[256];
  own[i] = int(g);
  given[i] = own[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = own[255 - i] + given[i];
}

kernel void lanes(device float* out [[buffer(0)]], device atomic_uint* count [[buffer(1)]],
                  uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {
  float sum = 0;
  if (lane % 3 == 0) sum = simd_sum(float(i));  // only active lanes take part
  sum += simd_shuffle_down(sum, 1) + quad_sum(sum) + simd_prefix_exclusive_sum(sum);
  if (simd_any(sum > 3.0f)) atomic_fetch_add_explicit(count, 1u, memory_order_relaxed);
  out[i] = sum;
}

template <typename T>
kernel void matmul(device float* out [[buffer(0)]], device const T* a [[buffer(1)]],
                    device const T* b [[buffer(2)]]) {
  simdgroup_matrix<T, 8, 8> x, y;
  simdgroup_float8x8 sum = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  simdgroup_load(x, a);
  simdgroup_load(y, b);
  simdgroup_multiply_accumulate(sum, x, y, sum);
  simdgroup_store(sum, out);
}
template [[host_name("matmul<float>")]] kernel decltype(matmul<float>) matmul<float>;
template [[host_name("matmul<half>")]] kernel decltype(matmul<half>) matmul<half>;
template [[host_name("matmul<bfloat>")]] kernel decltype(matmul<bfloat>) matmul<bfloat>;
