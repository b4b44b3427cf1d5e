// Filling with one value, and arithmetic sequences.
#include "elementwise/kernels.h"

template <typename T>
kernel void fill_dense(device T* out [[buffer(0)]], constant T& value [[buffer(1)]], constant uint& count [[buffer(2)]],
                       uint tid [[thread_position_in_grid]]) {
  MPSX_EACH_LANE(T, i, tid, count) out[i] = value;
}
template <typename T>
kernel void fill_any(device T* out [[buffer(0)]], constant T& value [[buffer(1)]],
                     constant StridedParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  out[row_offset(p, 0, gid) + long(gid.x) * p.stride[0][0]] = value;
}
#define FILL(T, TAG)                              \
  MPSX_KERNEL("fill_dense_" #TAG, fill_dense<T>)  \
  MPSX_KERNEL("fill_any_" #TAG, fill_any<T>)
FILL(char, i8)
FILL(short, i16)
FILL(int, i32)
FILL(long, i64)

// start + i * step, with the step as the sum of two floats so that long sequences do not drift.
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

// A CPU's thread divides once, and adds from there.
template <typename T>
kernel void linspace_whole(device T* out [[buffer(0)]], constant WholeLinspaceParams& p [[buffer(1)]],
                           uint tid [[thread_position_in_grid]]) {
  const uint each = MPSX_VECTOR_BYTES ? 1u : uint(kBlock), first = tid * each, last = min(first + each, p.count);
  const long at = p.start + long(first) * p.step, parts = p.parts, rise = p.rise, rest = p.rest;
  long whole = at / parts, left = at - whole * parts;  // rounded down from here on
  whole -= left < 0 ? 1 : 0;
  left += left < 0 ? parts : 0;
  for (uint i = first; i < last; ++i) {
    out[i] = T(whole + (whole < 0 && left > 0 ? 1 : 0));
    left += rest;
    whole += rise + (left >= parts ? 1 : 0);
    left -= left >= parts ? parts : 0;
  }
}
MPSX_KERNEL("linspace_whole_i64", linspace_whole<long>)
MPSX_KERNEL("linspace_whole_i32", linspace_whole<int>)
MPSX_KERNEL("linspace_whole_i16", linspace_whole<short>)
MPSX_KERNEL("linspace_whole_i8", linspace_whole<char>)
MPSX_KERNEL("linspace_whole_u8", linspace_whole<uchar>)
