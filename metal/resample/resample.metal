// One dimension of an interpolation, a padding or an average pooling, or of the backward of one: what they do is linear,
// and along each dimension a sum of a few elements (src/ops/resample/resample.h). Sums are made in float, in the order of the taps.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "resample/params.h"

constexpr constant int kTile = MPSX_VECTOR_BYTES ? 1 : kResampleTile;

// What a sum becomes: of bytes the nearest, the upper of two.
template <typename R>
inline R result_of(float sum) { return R(sum); }
template <>
inline uchar result_of<uchar>(float sum) { return uchar(clamp(floor(sum + 0.5f), 0.0f, 255.0f)); }

// Dimensions with others within them: a thread has kTile elements side by side.
template <typename T, typename R>
kernel void resample_planes(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                            device const int* starts [[buffer(2)]], device const int* places [[buffer(3)]],
                            device const float* weights [[buffer(4)]], constant ResampleParams& p [[buffer(5)]],
                            uint3 gid [[thread_position_in_grid]]) {
  const uint first = gid.x * kTile;
  const int n = int(min(uint(kTile), p.inner - first));
  device const T* from = x + ulong(gid.z) * p.in * p.inner + first;
  device R* to = out + (ulong(gid.z) * p.out + gid.y) * p.inner + first;
  const int begin = starts[gid.y], end = starts[gid.y + 1];
  float sum[kTile];
  if (begin == end) {
    for (int i = 0; i < n; ++i) sum[i] = 0.0f;
  } else {
    device const T* row = from + ulong(places[begin]) * p.inner;
    const float weight = weights[begin];
    MPSX_VECTORIZE
    for (int i = 0; i < n; ++i) sum[i] = weight * float(row[i]);
  }
  for (int k = begin + 1; k < end; ++k) {
    device const T* row = from + ulong(places[k]) * p.inner;
    const float weight = weights[k];
    MPSX_VECTORIZE
    for (int i = 0; i < n; ++i) sum[i] += weight * float(row[i]);
  }
  MPSX_VECTORIZE
  for (int i = 0; i < n; ++i) to[i] = result_of<R>(sum[i]);
}

// The innermost dimension.
template <typename T, typename R>
kernel void resample_rows(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                          device const int* starts [[buffer(2)]], device const int* places [[buffer(3)]],
                          device const float* weights [[buffer(4)]], constant ResampleParams& p [[buffer(5)]],
                          uint3 gid [[thread_position_in_grid]]) {
  device const T* from = x + ulong(gid.y) * p.in;
  const int begin = starts[gid.x], end = starts[gid.x + 1];
  float sum = begin == end ? 0.0f : weights[begin] * float(from[places[begin]]);
  for (int k = begin + 1; k < end; ++k) sum += weights[k] * float(from[places[k]]);
  out[ulong(gid.y) * p.out + gid.x] = result_of<R>(sum);
}

// The same where every element has K taps: all first ones, then all second ones, which a loop over elements reads densely.
template <typename T, typename R, uint K>
kernel void resample_even_rows(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                               device const int* places [[buffer(2)]], device const float* weights [[buffer(3)]],
                               constant ResampleParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  device const T* from = x + ulong(gid.y) * p.in;
  float sum = weights[gid.x] * float(from[places[gid.x]]);
#pragma unroll
  for (uint k = 1; k < K; ++k) sum += weights[k * p.out + gid.x] * float(from[places[k * p.out + gid.x]]);
  out[ulong(gid.y) * p.out + gid.x] = result_of<R>(sum);
}

// Between dimensions the elements stay float, and bytes bytes.
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
