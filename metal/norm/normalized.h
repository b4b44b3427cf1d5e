// Functors and row statistics that layer_norm, group_norm and batch_norm share.
#pragma once

#include "norm/deviation.h"

// Functors for pairs of an output gradient and an input.
struct Gradient {
  float at(thread const Pair& v) const { return v.a; }
};
struct GradientTimesCentered {
  float mean;
  float at(thread const Pair& v) const { return v.a * (v.b - mean); }
};

// The normalized value (x - mean) * rstd * weight + bias.
struct Normalized {
  float mean, rstd;
  float at(float x, Pair parameters) const { return fma((x - mean) * rstd, parameters.a, parameters.b); }
};

// Estimates the mean of a row of n elements from a sample. Then sums the deviations from the estimate, which yields the
// exact mean, and their squares. If the squares overflow, repeats the pass with scaled values.
template <typename T>
inline Normalized normalized(thread RegisterRow<Loader<T>>& row, float n, float eps, threadgroup float2* scratch,
                             RowGroup group, GroupThread g) {
  const float2 samples = rg_reduce<CombineSum>(sample(row), scratch, group, g);
  float center = 0.0f;
  float2 means = float2(0.0f);
  float scale = 1.0f;
  for (;; scale = kSquareScale) {
    center = samples.x / samples.y / kSampleScale * scale;
    const float2 sums = row.sums(Deviation{center, scale}, SquaredDeviation{center, scale});
    means = rg_reduce<CombineSum>(sums, scratch, group, g) / float2(n);
    if (means.y <= FLT_MAX || scale < 1.0f) break;
  }
  const float variance = propagating_max(means.y - means.x * means.x, 0.0f);
  const float rstd = scale / precise::sqrt(variance + eps * scale * scale);
  return {(is_infinite(center) ? center : center + means.x) / scale, rstd};
}
