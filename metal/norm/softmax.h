// Functors for the gradients of softmax and log_softmax. Their operands are pairs (dy, y).
#pragma once

#include "lib/exp.h"
#include "lib/threadgroup.h"

// For softmax, dx = y * (dy - sum(dy * y)).
struct GradTimesResult {
  float at(thread const Pair& v) const { return v.a * v.b; }
};
struct SoftmaxGradient {
  float sum;
  float at(thread const Pair& v, float) const { return v.b * (v.a - sum); }
};
// For log_softmax, dx = dy - exp(y) * sum(dy). The terms of the sum are scaled, because it may overflow even if dx does
// not.
constant float kSumScale = 0x1p-16f;
struct ScaledGrad {
  float at(thread const Pair& v) const { return v.a * kSumScale; }
};
template <typename O>
struct LogSoftmaxGradient {
  float sum;
  float at(thread const Pair& v, float) const {
    return fma(exp_nonpositive_as<O>(v.b) * sum, -1.0f / kSumScale, v.a);
  }
};
