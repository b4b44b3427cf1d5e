// Constant fills and arithmetic sequences.
#include "elementwise/params.h"
#include "lib/index.h"
#include "lib/instantiate.h"
#include "lib/vec_loop.h"

template <uint N, typename T>
inline void fill(VecLoop<N, true> d, device T* out, long to, T value) {
  VecBatch<T, N> y;
  MPSX_UNROLL for (uint i = 0; i < y.count; ++i) y.at[i] = value;
  for (; d.more(); d.next()) store_vecs(d, out, to, y);
}
template <typename T>
kernel void fill_dense(device T* out [[buffer(0)]], constant T& value [[buffer(1)]],
                       constant StridedParams& p [[buffer(2)]], MPSX_GRID_PARAMETERS) {
  device T* to = out + row_offset(p, 0, gid);
  MPSX_VEC_LOOPS(T, T, p.size[0], fill, to, 1, T(value));
}
template <typename T>
kernel void fill_strided(device T* out [[buffer(0)]], constant T& value [[buffer(1)]],
                         constant StridedParams& p [[buffer(2)]], MPSX_GRID_PARAMETERS) {
  fill(MPSX_SCALAR_LOOP, out + row_offset(p, 0, gid), p.stride[0][0], T(value));
}
#define FILL(T, TAG)                                \
  MPSX_KERNEL("fill_dense_" #TAG, fill_dense<T>)    \
  MPSX_KERNEL("fill_strided_" #TAG, fill_strided<T>)
FILL(char, i8)
FILL(short, i16)
FILL(int, i32)
FILL(long, i64)

// Computes start + i * step. The step is the sum of two floats, so that long sequences stay accurate.
template <typename T>
kernel void arange_float(device T* out [[buffer(0)]], constant SequenceParams& p [[buffer(1)]],
                         uint i [[thread_position_in_grid]]) {
  const float n = float(i + p.first);
  out[i] = T(fma(n, p.step_low, fma(n, p.step, p.start)));
}
template <typename T>
kernel void arange_int(device T* out [[buffer(0)]], constant SequenceParams& p [[buffer(1)]],
                       uint i [[thread_position_in_grid]]) {
  out[i] = T(ulong(p.int_start) + ulong(i + p.first) * ulong(p.int_step));
}
MPSX_KERNEL("arange_f32", arange_float<float>)
MPSX_KERNEL("arange_f16", arange_float<half>)
MPSX_KERNEL("arange_bf16", arange_float<bfloat>)
MPSX_KERNEL("arange_i64", arange_int<long>)
MPSX_KERNEL("arange_i32", arange_int<int>)
MPSX_KERNEL("arange_i16", arange_int<short>)
MPSX_KERNEL("arange_i8", arange_int<char>)
MPSX_KERNEL("arange_u8", arange_int<uchar>)

template <typename T>
kernel void linspace(device T* out [[buffer(0)]], constant LinspaceParams& p [[buffer(1)]],
                     uint tid [[thread_position_in_grid]]) {
  const uint i = tid + p.first;
  const bool first_half = i < p.count / 2;
  const float n = first_half ? float(i) : -float(p.count - 1 - i);
  out[tid] = T(fma(n, p.step_low, fma(n, p.step, first_half ? p.start : p.end)));
}
MPSX_KERNEL("linspace_f32", linspace<float>)
MPSX_KERNEL("linspace_f16", linspace<half>)
MPSX_KERNEL("linspace_bf16", linspace<bfloat>)

// For integers, the exact quotient is truncated.
template <typename T>
kernel void linspace_integer(device T* out [[buffer(0)]], constant IntegerLinspaceParams& p [[buffer(1)]],
                             uint i [[thread_position_in_grid]]) {
  out[i] = T((p.start + long(i) * p.step) / p.parts);
}
MPSX_KERNEL("linspace_integer_i64", linspace_integer<long>)
MPSX_KERNEL("linspace_integer_i32", linspace_integer<int>)
MPSX_KERNEL("linspace_integer_i16", linspace_integer<short>)
MPSX_KERNEL("linspace_integer_i8", linspace_integer<char>)
MPSX_KERNEL("linspace_integer_u8", linspace_integer<uchar>)
