// Kernels for test_tensor_api.py. They use Metal 4's tensor views and cooperative tensors.
#include <metal_stdlib>
#include <metal_tensor>
#include <MetalPerformancePrimitives/MetalPerformancePrimitives.h>
using namespace metal;
using namespace mpp::tensor_ops;

typedef dextents<int, 2> sizes_2d;

// Writes the extents, strides and elements of several views of a 6 x 4 x 3 tensor.
kernel void views(device int* data, device int* out, uint i [[thread_position_in_grid]]) {
  if (i != 0) return;
  int at = 0;
  auto add = [&](int v) { out[at++] = v; };
  auto packed = tensor(data, dextents<int, 3>(6, 4, 3));
  for (int d = 0; d < 3; ++d) add(packed.get_extent(d)), add(packed.get_stride(d));
  add(packed.get_rank());
  add(packed[5, 3, 2]);
  auto fixed = tensor(data, extents<int, 6, 4, 3>());
  add(fixed.get_static_extent(1)), add(fixed.get_extent(1)), add(fixed[1, 2, 0]);
  tensor<device int, extents<int, dynamic_extent, 4>, tensor_inline> mixed(data, extents<int, dynamic_extent, 4>(6));
  add(mixed.get_extent(0)), add(mixed.get_extent(1)), add(mixed[array<int, 2>{4, 1}]);
  auto transposed = tensor(data, sizes_2d(4, 6), array<int, 2>{6, 1});
  add(transposed.get_stride(0)), add(transposed[3, 2]);
  auto part = packed.slice(2, 1, 1);
  for (int d = 0; d < 3; ++d) add(part.get_extent(d)), add(part.get_stride(d));
  add(part[0, 0, 0]);
  auto tile = packed.slice<3, dynamic_extent, 1>(1, 2, 2);
  for (int d = 0; d < 3; ++d) add(tile.get_extent(d));
  add(tile.get_static_extent(0)), add(tile[2, 1, 0]);
  tensor<device int, dextents<int, 3>, tensor_offset> erased = tile;
  add(erased.get_extent(2)), add(erased.slice(0, 1, 0)[1, 0, 0]);
  part[0, 0, 0] = -1;
  add(data[2 + 6 + 24]);
  auto columns = packed.slice<dynamic_length_v<int>, 2, 1>(1, 2, 2);
  add(columns.get_extent(0)), add(columns.get_static_extent(1)), add(columns[4, 1, 0]);
}

// Writes to `counts` how many threads own each element, which must be 1. Copies a tensor with load, iterators, get, set
// and store.
template <int M, int N, class Scope>
kernel void elements(device float* in, device float* out, device float* counts) {
  constexpr auto what = matmul2d_descriptor(M, N, 16);
  matmul2d<what, Scope> op;
  typedef tensor<device half, sizes_2d, tensor_inline> operand;
  auto x = op.template get_destination_cooperative_tensor<operand, operand, float>();
  x.load(tensor(in, sizes_2d(N, M)));
  for (auto it = x.begin(); it != x.end(); it++)
    if (it.is_valid_element()) *it += 1.0f;
  auto y = op.template get_destination_cooperative_tensor<operand, operand, float>();
  for (ushort i = 0; i < x.get_capacity(); ++i) {
    auto it = x.begin() + i;
    y.set(it - x.begin(), 2.0f * *it);
    if (y.begin()[i] != 2.0f * x.get(i) || !(it < x.end()) || x.end() - it != x.get_capacity() - i) counts[0] = 99.0f;
    if (x.is_valid_element(it) != x.is_valid_element(i)) counts[0] = 99.0f;
    if (!x.get_mask(i) || !x.is_valid_element(i)) continue;
    auto at = x.get_multidimensional_index(i);
    counts[at[1] * N + at[0]] += 1.0f;
    if (x[i] != in[at[1] * N + at[0]] + 1.0f) counts[0] = 99.0f;
  }
  y.store(tensor(out, sizes_2d(N, M)).slice<N, M - 1>(0, 0));
}

// Writes the number of elements that each thread holds, and the number of invalid ones among them.
template <int M, int N, class Scope>
kernel void capacities(device int2* out, uint i [[thread_position_in_threadgroup]]) {
  constexpr auto what = matmul2d_descriptor(M, N, dynamic_length_v<int>);
  matmul2d<what, Scope> op;
  typedef tensor<device half, sizes_2d, tensor_inline> operand;
  auto x = op.template get_destination_cooperative_tensor<operand, operand, float>();
  out[i] = int2(x.get_capacity(), 0);
  for (auto it = x.begin(); it != x.end(); ++it) out[i].y += !it.is_valid_element();
}

// Computes out = softmax(A B) over each row, and with a column reduction, smallest = the minimum of each column.
template <class T, int M, int N, class Scope>
kernel void reductions(device T* a, device T* b, device float* out, device float* smallest) {
  constexpr auto what = matmul2d_descriptor(M, N, 16);
  matmul2d<what, Scope> op;
  auto A = tensor(a, extents<int, 16, M>());
  auto B = tensor(b, extents<int, N, 16>());
  auto s = op.template get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  op.run(A, B, s);
  auto low = op.template get_column_reduction_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  reduce_columns(s, low, reduction_operation::min, reduction_operation_identity<float>::min_identity);
  low.store(tensor(smallest, dextents<int, 1>(N)));
  auto row = op.template get_row_reduction_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  reduce_rows(s, row, reduction_operation::max, reduction_operation_identity<float>::max_identity);
  if (!is_iterator_compatible(s, row) || !is_iterator_compatible(s, low)) return;
  for (auto it = s.begin(); it != s.end(); it++) *it = exp(*it - *row.map_iterator(it));
  reduce_rows(s, row, reduction_operation::sum, 0.0f);
  for (auto it = s.begin(); it != s.end(); it++) *it /= *row.map_iterator(it);
  s.store(tensor(out, sizes_2d(N, M)));
}

// Attention with online softmax. Each threadgroup processes BQ queries and iterates over blocks of BK keys. The second
// matmul reads P from threadgroup memory or, if IN_REGISTERS is set, from registers. Apple's matmul2d reads registers
// only in execution_simdgroup, and does not convert their elements.
template <class T, bool IN_REGISTERS, int BQ, int BK, int D, class Scope>
kernel void attention(device T* q, device T* k, device T* v, device float* out, constant int2& counts,
                      uint group [[threadgroup_position_in_grid]]) {
  threadgroup T p[BQ * BK];
  constexpr auto scores = matmul2d_descriptor(BQ, BK, D, false, true);
  constexpr auto values = matmul2d_descriptor(BQ, D, BK, false, false, false,
                                              matmul2d_descriptor::mode::multiply_accumulate);
  matmul2d<scores, Scope> first;
  matmul2d<values, Scope, mpsx::more_cooperative_operands> second;
  auto Q = tensor(q, sizes_2d(D, counts.x)).slice(0, int(group) * BQ);
  auto K = tensor(k, sizes_2d(D, counts.y));
  auto V = tensor(v, sizes_2d(D, counts.y));
  tensor<threadgroup T, extents<int, BK, BQ>, tensor_inline> P(p, extents<int, BK, BQ>());
  auto s = first.template get_destination_cooperative_tensor<decltype(Q), decltype(K), float>();
  auto o = second.template get_destination_cooperative_tensor<decltype(P), decltype(V), float>();
  auto highest = first.template get_row_reduction_destination_cooperative_tensor<decltype(Q), decltype(K), float>();
  auto top = first.template get_row_reduction_destination_cooperative_tensor<decltype(Q), decltype(K), float>();
  auto sum = first.template get_row_reduction_destination_cooperative_tensor<decltype(Q), decltype(K), float>();
  auto part = first.template get_row_reduction_destination_cooperative_tensor<decltype(Q), decltype(K), float>();
  for (ushort i = 0; i < highest.get_capacity(); ++i) highest[i] = -INFINITY, sum[i] = 0.0f;
  for (ushort i = 0; i < o.get_capacity(); ++i) o[i] = 0.0f;
  for (int at = 0; at < counts.y; at += BK) {
    auto keys = K.slice(0, at);
    auto rows = V.slice(0, at);
    first.run(Q, keys, s);
    for (ushort i = 0; i < s.get_capacity(); ++i)
      s[i] = at + s.get_multidimensional_index(i)[0] < counts.y ? s[i] * rsqrt(float(D)) : -INFINITY;
    reduce_rows(s, top, reduction_operation::max, -INFINITY);
    for (ushort i = 0; i < top.get_capacity(); ++i) {
      top[i] = max(top[i], highest[i]);
      highest[i] = exp(highest[i] - top[i]);  // rescales the sums of the earlier blocks
    }
    for (auto it = s.begin(); it != s.end(); it++) *it = exp(*it - *top.map_iterator(it));
    reduce_rows(s, part, reduction_operation::sum, 0.0f);
    for (auto it = o.begin(); it != o.end(); it++) *it *= *highest.map_iterator(it);
    for (ushort i = 0; i < sum.get_capacity(); ++i) sum[i] = sum[i] * highest[i] + part[i], highest[i] = top[i];
    if (IN_REGISTERS) {
      auto left = second.template get_left_input_cooperative_tensor<T, T, float>(s);
      second.run(left, rows, o);
    } else {
      threadgroup_barrier(mem_flags::mem_threadgroup);
      auto rounded = first.template get_destination_cooperative_tensor<decltype(Q), decltype(K), T>();
      for (ushort i = 0; i < s.get_capacity(); ++i) rounded[i] = T(s[i]);
      rounded.store(P);
      threadgroup_barrier(mem_flags::mem_threadgroup);
      second.run(P, rows, o);
    }
  }
  for (auto it = o.begin(); it != o.end(); it++) *it /= *sum.map_iterator(it);
  o.store(tensor(out, sizes_2d(D, counts.x)).slice(0, int(group) * BQ));
}

// Sums each row of a 16 x 32 result across lanes. Like MLX's kernels, relies on the fragment layout.
template <class T>
kernel void lanes(device T* a, device T* b, device float* out, device float* sums,
                  uint lane [[thread_index_in_simdgroup]]) {
  constexpr auto what = matmul2d_descriptor(16, 32, 16);
  matmul2d<what, execution_simdgroup> op;
  auto A = tensor(a, sizes_2d(16, 16));
  auto B = tensor(b, sizes_2d(32, 16));
  auto s = op.template get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  op.run(A, B, s);
  const ushort q = lane >> 2, row = (q & 4) | ((lane >> 1) & 3), column = ((q & 2) | (lane & 1)) * 4;
  for (ushort half_row = 0; half_row < 2; ++half_row) {
    float sum = 0.0f;
    for (ushort f = 0; f < 2; ++f)
      for (ushort i = 0; i < 4; ++i) {
        const float v = s[f * 8 + half_row * 4 + i];
        sum += v;
        out[(row + half_row * 8) * 32 + f * 16 + column + i] = v;
      }
    sum += simd_shuffle_xor(sum, 1);
    sum += simd_shuffle_xor(sum, 8);
    if (column == 0) sums[row + half_row * 8] = sum;
  }
}

// Each SIMD group of the threadgroup multiplies its own 16 x 32 tile.
static_assert(is_same_v<execution_simdgroup, execution_simdgroups<1>>, "the same scope");
static_assert(is_same_v<execution_thread, execution_threads<1>>, "the same scope");
kernel void separately(device half* a [[buffer(0)]], device half* b [[buffer(1)]], device float* c [[buffer(2)]],
                       uint simdgroup [[simdgroup_index_in_threadgroup]], uint rows [[simdgroups_per_threadgroup]]) {
  const int row = simdgroup * 16, m = rows * 16;
  constexpr auto what = matmul2d_descriptor(16, 32, static_cast<int>(dynamic_extent));
  matmul2d<what, execution_simdgroups<1>> op;
  auto A = tensor(a, dextents<int, 2>(40, m)).slice(0, row);
  auto B = tensor(b, dextents<int, 2>(32, 40));
  auto sum = op.get_destination_cooperative_tensor<decltype(A), decltype(B), float>();
  op.run(A, B, sum);
  sum.store(tensor(c, dextents<int, 2>(32, m)).slice(0, row));
}
