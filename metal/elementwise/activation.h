// Functions that activation.def uses.
#pragma once

#include "elementwise/scalars.h"
#include "lib/arithmetic.h"
#include "lib/gelu.h"
#include "lib/math.h"

inline float gelu_none_slope(float x) {
  const float density = fast::exp(-0.5f * x * x) * 0.398942280401433f;  // 1 / sqrt(2 pi)
  return 0.5f * twice_normal_cdf(x) + x * density;
}
inline float gelu_tanh_slope(float x) {
  const float gate = gelu_tanh_gate(x), slope = 2.0f * kSqrt2OverPi * (1.0f + 3.0f * kGeluCubic * x * x);
  return gate + x * gate * (1.0f - gate) * slope;
}
inline float silu_slope(float x) {
  const float y = sigmoid(x);
  return y * (1.0f + x * (1.0f - y));
}
// Returns log(1 + exp(x)) without overflow.
inline float softplus(float x) { return max(x, 0.0f) + log1p(exp_nonpositive(-fabs(x))); }
inline float mish_slope(float x) {
  const float t = precise::tanh(softplus(x)), y = sigmoid(x);
  return t + x * y * (1.0f - t * t);
}
inline float clamp_unit(float x) { return between(x + 3.0f, 0.0f, 6.0f); }

inline float logit_clamped(float x, float low, float high) {
  const float y = x < low ? low : (x > high ? high : x);
  return precise::log(y / (1.0f - y));
}
