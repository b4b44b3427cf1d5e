// Resamples one dimension, for interpolation, padding, average pooling, or one of their backward passes. In all of
// these, an output element is a weighted sum of a few input elements along each dimension
// (src/ops/resample/resample.h). The sum is accumulated in float, in the order of the taps.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "resample/params.h"

// Converts a sum to the result type. For uchar, rounds to nearest, with ties up.
template <typename R>
inline R result_of(float sum) { return R(sum); }
template <>
inline uchar result_of<uchar>(float sum) { return uchar(clamp(floor(sum + 0.5f), 0.0f, 255.0f)); }

// Resamples N adjacent elements, which have the same taps. `from` points to the column of the first element.
template <uint N, typename T, typename R>
inline void resample_columns(device R* to, device const T* from, device const int* indices, device const float* weights,
                             int begin, int end, uint inner) {
  float sum[N];
  for (uint i = 0; i < N; ++i)
    sum[i] = begin < end ? weights[begin] * float(from[ulong(indices[begin]) * inner + i]) : 0.0f;
  for (int k = begin + 1; k < end; ++k) {
    device const T* row = from + ulong(indices[k]) * inner;
    for (uint i = 0; i < N; ++i) sum[i] += weights[k] * float(row[i]);
  }
  MPSX_VECTORIZE
  for (uint i = 0; i < N; ++i) to[i] = result_of<R>(sum[i]);
}

// For dimensions other than the innermost. gid = (tile of the inner dimensions, element, outer dimensions).
template <typename T, typename R>
kernel void resample_planes(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                            device const int* starts [[buffer(2)]], device const int* indices [[buffer(3)]],
                            device const float* weights [[buffer(4)]], constant ResampleParams& p [[buffer(5)]],
                            uint3 gid [[thread_position_in_grid]]) {
  const uint first = gid.x * kResampleTile;
  device const T* from = x + ulong(gid.z) * p.in * p.inner;
  device R* to = out + (ulong(gid.z) * p.out + gid.y) * p.inner;
  const int begin = starts[gid.y], end = starts[gid.y + 1];
  if (first + kResampleTile <= p.inner)
    return resample_columns<kResampleTile>(to + first, from + first, indices, weights, begin, end, p.inner);
  for (uint i = first; i < p.inner; ++i) resample_columns<1>(to + i, from + i, indices, weights, begin, end, p.inner);
}

// For the innermost dimension.
template <typename T, typename R>
kernel void resample_rows(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                          device const int* starts [[buffer(2)]], device const int* indices [[buffer(3)]],
                          device const float* weights [[buffer(4)]], constant ResampleParams& p [[buffer(5)]],
                          uint3 gid [[thread_position_in_grid]]) {
  device const T* from = x + ulong(gid.y) * p.in;
  const int begin = starts[gid.x], end = starts[gid.x + 1];
  float sum = begin == end ? 0.0f : weights[begin] * float(from[indices[begin]]);
  for (int k = begin + 1; k < end; ++k) sum += weights[k] * float(from[indices[k]]);
  out[ulong(gid.y) * p.out + gid.x] = result_of<R>(sum);
}

// resample_rows for the case that every element has K taps. The first taps of all elements are stored before all second
// taps, and so on, so that loads coalesce.
template <typename T, typename R, uint K>
kernel void resample_even_rows(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                               device const int* indices [[buffer(2)]], device const float* weights [[buffer(3)]],
                               constant ResampleParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  device const T* from = x + ulong(gid.y) * p.in;
  float sum = weights[gid.x] * float(from[indices[gid.x]]);
#pragma unroll
  for (uint k = 1; k < K; ++k) sum += weights[k * p.out + gid.x] * float(from[indices[k * p.out + gid.x]]);
  out[ulong(gid.y) * p.out + gid.x] = result_of<R>(sum);
}

// Between dimensions, the intermediate results are float for half types and uchar for uchar.
#define RESAMPLE(T, R, TAGS)                                            \
  MPSX_KERNEL("resample_planes_" TAGS, resample_planes<T, R>)           \
  MPSX_KERNEL("resample_rows_" TAGS, resample_rows<T, R>)               \
  MPSX_KERNEL("resample_rows_1_" TAGS, resample_even_rows<T, R, 1>)     \
  MPSX_KERNEL("resample_rows_2_" TAGS, resample_even_rows<T, R, 2>)
#define MPSX_RESAMPLE_HALF(T, TAG)   \
  RESAMPLE(T, T, #TAG "_" #TAG)      \
  RESAMPLE(T, float, #TAG "_f32")    \
  RESAMPLE(float, T, "f32_" #TAG)
RESAMPLE(float, float, "f32_f32")
RESAMPLE(uchar, uchar, "u8_u8")
MPSX_RESAMPLE_HALF(half, f16)
MPSX_RESAMPLE_HALF(bfloat, bf16)
