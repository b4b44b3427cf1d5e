// Estimates the mean of each row from a sample, and computes deviations from this estimate, which is called the center.
#pragma once

#include "lib/row.h"

// The deviation of scale * x from the center. The scale keeps the squares in float range.
struct Deviation {
  float center, scale;
  float at(float x) const { return fma(x, scale, -center); }
};
struct SquaredDeviation {
  float center, scale;
  float at(float x) const {
    const float d = fma(x, scale, -center);
    return d * d;
  }
};
// kSampleScale keeps the sums of samples from overflowing, and kSquareScale keeps the squares of large values from
// overflowing.
constant float kSampleScale = 0x1p-32f, kSquareScale = 0x1p-96f;

// Returns the sum of a few of this thread's values, times kSampleScale, and the number of these values. The center is
// the mean of the values that all threads sample. If k out of n values are sampled, the sum of squares loses at most
// log2(n / k) bits.
template <typename T>
inline float2 sample(thread const RegisterRow<Loader<T>>& row) {
  enum : uint { kVector = Loader<T>::kVector };
  float sum = 0.0f, taken = 0.0f;
  if (row.vectors == 0) {
    for (uint e = row.index; e < row.scalars && taken < float(kVector); e += row.count)
      sum = fma(row.in.scalar(row.scalar_offset(e)), kSampleScale, sum), taken += 1.0f;
    return float2(sum, taken);
  }
  if (row.index >= row.vectors) return float2(0.0f);
  float v[kVector];
  row.values(v, 0);
#pragma unroll
  for (uint j = 0; j < kVector; ++j) sum = fma(v[j], kSampleScale, sum);
  return float2(sum, float(kVector));
}
