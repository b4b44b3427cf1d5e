// Kernels that, like MLX's, rely on the fragment layout of the 16 x 32 x 16 matmul2d of one SIMD group.
#include <metal_stdlib>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

struct Sizes {
  int m, n, k;
};

// In a 16 x 16 fragment, each lane holds rows y and y + 8 of columns x to x + 3.
inline short2 fragment_origin(ushort lane) {
  const short q = lane >> 2;
  return short2(((q & 2) | (lane & 1)) * 4, (q & 4) | ((lane >> 1) & 3));
}
// Loads the lane's elements of the fragment that starts at (row, column). The matrix has `width` columns. Elements
// beyond the bounds `rows` and `columns` are zero.
template <class T>
void load_fragment(thread T* to, const device T* from, int row, int column, int rows, int columns, int width,
                   ushort lane) {
  const short2 at = fragment_origin(lane);
#pragma clang loop unroll(full)
  for (short i = 0; i < 8; ++i) {
    const int r = row + at.y + i / 4 * 8, c = column + at.x + i % 4;
    to[i] = r < rows && c < columns ? from[r * width + c] : T(0);
  }
}
template <class T>
void store_fragment(thread const float* from, device T* to, int row, int column, int rows, int columns, ushort lane) {
  const short2 at = fragment_origin(lane);
  for (short i = 0; i < 8; ++i) {
    const int r = row + at.y + i / 4 * 8, c = column + at.x + i % 4;
    if (r < rows && c < columns) to[r * columns + c] = T(from[i]);
  }
}
// d += op(a) op(b). d and b each consist of two fragments. The fragments of d are side by side. The fragments of b are
// stacked if TB is true.
template <class T, bool TA, bool TB>
void multiply(thread float* d, thread const T* a, thread const T* b) {
  constexpr auto what = matmul2d_descriptor(16, 32, 16, TA, TB, true, matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<what, execution_simdgroup> op;
  auto left = op.template get_left_input_cooperative_tensor<T, T, float>();
  auto right = op.template get_right_input_cooperative_tensor<T, T, float>();
  auto sum = op.template get_destination_cooperative_tensor<decltype(left), decltype(right), float>();
  for (short i = 0; i < 8; ++i) left[i] = a[i];
  for (short i = 0; i < 16; ++i) right[i] = b[i], sum[i] = d[i];
  op.run(left, right, sum);
  for (short i = 0; i < 16; ++i) d[i] = sum[i];
}

// Each SIMD group computes a 16 x 32 tile of C = op(A) op(B).
template <class T, bool TA, bool TB>
kernel void gemm(const device T* a, const device T* b, device T* c, constant Sizes& s,
                 uint2 group [[threadgroup_position_in_grid]], ushort simd [[simdgroup_index_in_threadgroup]],
                 ushort lane [[thread_index_in_simdgroup]]) {
  const int row = (group.y * 2 + simd) * 16, column = group.x * 32;
  float sum[16] = {};
  for (int k = 0; k < s.k; k += 16) {
    T left[8], right[16];
    if (TA)
      load_fragment(left, a, k, row, s.k, s.m, s.m, lane);
    else
      load_fragment(left, a, row, k, s.m, s.k, s.k, lane);
    for (short h = 0; h < 2; ++h)
      if (TB)
        load_fragment(right + h * 8, b, column + h * 16, k, s.n, s.k, s.k, lane);
      else
        load_fragment(right + h * 8, b, k, column + h * 16, s.k, s.n, s.n, lane);
    multiply<T, TA, TB>(sum, left, right);
  }
  for (short h = 0; h < 2; ++h) store_fragment(sum + h * 8, c, row, column + h * 16, s.m, s.n, lane);
}

// Reduces each row of a 16 x 32 result. Four lanes share a row.
template <class F>
float2 reduce_fragment_rows(thread const float* s, F f) {
  float2 result;
  for (short r = 0; r < 2; ++r) {
    float x = s[r * 4];
    for (short i = 1; i < 8; ++i) x = f(x, s[r * 4 + i % 4 + i / 4 * 8]);
    x = f(x, simd_shuffle_xor(x, 1));
    result[r] = f(x, simd_shuffle_xor(x, 8));
  }
  return result;
}
// softmax(Q K^T / sqrt(D)) V. Each SIMD group processes 16 rows of Q, 32 rows of K at a time.
template <class T, int D>
kernel void attention(const device T* q, const device T* k, const device T* v, device T* o, constant Sizes& s,
                      uint group [[threadgroup_position_in_grid]], ushort lane [[thread_index_in_simdgroup]]) {
  const int row = group * 16;
  float out[D / 2] = {};
  float2 maximum = -INFINITY, total = 0;
  for (int key = 0; key < s.n; key += 32) {
    float p[16] = {};
    for (short d = 0; d < D; d += 16) {
      T left[8], right[16];
      load_fragment(left, q, row, d, s.m, D, D, lane);
      for (short h = 0; h < 2; ++h) load_fragment(right + h * 8, k, key + h * 16, d, s.n, D, D, lane);
      multiply<T, false, true>(p, left, right);
    }
    for (short i = 0; i < 16; ++i)
      p[i] = key + i / 8 * 16 + fragment_origin(lane).x + i % 4 < s.n ? p[i] * rsqrt(float(D)) : -INFINITY;
    const float2 highest = max(maximum, reduce_fragment_rows(p, [](float x, float y) { return max(x, y); }));
    const float2 factor = exp(maximum - highest);
    for (short i = 0; i < 16; ++i) p[i] = exp(p[i] - highest[i / 4 % 2]);
    total = total * factor + reduce_fragment_rows(p, [](float x, float y) { return x + y; });
    maximum = highest;
    for (short i = 0; i < D / 2; ++i) out[i] *= factor[i / 4 % 2];
    for (short d = 0; d < D; d += 32)
      for (short h = 0; h < 2; ++h) {
        T left[8], right[16];
        for (short i = 0; i < 8; ++i) left[i] = T(p[h * 8 + i]);
        for (short g = 0; g < 2; ++g) load_fragment(right + g * 8, v, key + h * 16, d + g * 16, s.n, D, D, lane);
        multiply<T, false, false>(out + d / 2, left, right);
      }
  }
  for (short i = 0; i < D / 2; ++i) out[i] /= total[i / 4 % 2];
  for (short d = 0; d < D; d += 16) store_fragment(out + d / 2, o, row, d, s.m, D, lane);
}

// C = X W^T with quantized W. As in ggml, each block of W has a half scale and 32 signed bytes. Blocks are dequantized
// into threadgroup memory.
struct Block {
  half scale;
  char q[32];
};
kernel void dequantize(const device Block* w, device float* x, device float* c, constant Sizes& s,
                       threadgroup char* memory [[threadgroup(0)]], uint2 group [[threadgroup_position_in_grid]],
                       ushort local [[thread_index_in_threadgroup]]) {
  threadgroup half* tile = (threadgroup half*)memory;
  const int row = group.y * 64, column = group.x * 64;
  matmul2d<matmul2d_descriptor(64, 64, static_cast<int>(dynamic_extent), false, true, true,
                               matmul2d_descriptor::mode::multiply_accumulate), execution_simdgroups<4>> op;
  auto right = tensor(tile, dextents<int, 2>(32, 64));
  auto all = tensor(x, dextents<int, 2>(s.k, s.m), array<int, 2>({1, s.k}));
  auto sum = op.get_destination_cooperative_tensor<decltype(all), decltype(right), float>();
  for (int k = 0; k < s.k; k += 32) {
    for (short i = local; i < 64; i += 128) {
      const bool inside = column + i < s.n;
      const Block block = w[inside ? (column + i) * (s.k / 32) + k / 32 : 0];
      for (short j = 0; j < 32; ++j) tile[i * 32 + j] = inside ? half(block.q[j]) * block.scale : half(0);
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    auto left = tensor(x + row * s.k + k, dextents<int, 2>(32, s.m - row), array<int, 2>({1, s.k}));
    op.run(left, right, sum);
    threadgroup_barrier(mem_flags::mem_threadgroup);
  }
  sum.store(tensor(c, dextents<int, 2>(s.n, s.m)).slice(column, row));
}

// softmax(Q K^T) V with matmul2d's reductions. Copies the result of the first matmul element by element into an operand
// of the second.
kernel void reductions(device half* q, device half* k, device half* v, device float* o, constant Sizes& s) {
  auto Q = tensor(q, dextents<int, 2>(64, 16));
  constexpr auto scores = matmul2d_descriptor(16, 32, 64, false, true), values = matmul2d_descriptor(
      16, 64, 32, false, false, false, matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<scores, execution_simdgroup> qk;
  matmul2d<values, execution_simdgroup> pv;
  auto p = qk.get_destination_cooperative_tensor<decltype(Q), decltype(Q), float>();
  auto maximum = qk.get_row_reduction_destination_cooperative_tensor<decltype(Q), decltype(Q), float>();
  auto total = maximum, highest = maximum, factor = maximum;
  auto left = pv.get_left_input_cooperative_tensor<half, half, float>();
  auto out = pv.get_destination_cooperative_tensor<decltype(left), decltype(Q), float>();
  for (auto it = maximum.begin(); it != maximum.end(); ++it) *it = -INFINITY;
  for (int key = 0; key < s.n; key += 32) {
    auto K = tensor(k + key * 64, dextents<int, 2>(64, 32)), V = tensor(v + key * 64, dextents<int, 2>(64, 32));
    qk.run(Q, K, p);
    reduce_rows(p, highest, reduction_operation::max, reduction_operation_identity<float>::max_identity);
    for (ushort i = 0; i < maximum.get_capacity(); ++i) {
      highest[i] = max(maximum[i], highest[i]);
      factor[i] = exp(maximum[i] - highest[i]);
      maximum[i] = highest[i];
    }
    for (ushort i = 0; i < p.get_capacity(); ++i) p[i] = exp(p[i] - *maximum.map_iterator(p.get_iterator(i)));
    reduce_rows(p, highest, reduction_operation::sum, 0.0f);
    for (ushort i = 0; i < total.get_capacity(); ++i) total[i] = total[i] * factor[i] + highest[i];
    for (ushort i = 0; i < p.get_capacity(); ++i) left[i] = half(p[i]);
    for (auto it = out.begin(); it != out.end(); ++it) *it *= *factor.map_iterator(it);
    pv.run(left, V, out);
  }
  for (auto it = out.begin(); it != out.end(); ++it) *it /= *total.map_iterator(it);
  out.store(tensor(o, dextents<int, 2>(64, 16)));
}
