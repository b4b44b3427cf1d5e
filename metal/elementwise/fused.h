// Addition and subtraction of a scaled operand. Like PyTorch's vectorized kernels, they use fma for floats, because the
// product may overflow even if the result does not.
#pragma once

#include "lib/arithmetic.h"

template <typename T> inline T add_fused(T a, T b, T alpha) { return add_scaled(a, b, alpha); }
inline float add_fused(float a, float b, float alpha) { return fma(alpha, b, a); }
template <typename T> inline T subtract_fused(T a, T b, T alpha) { return subtract_scaled(a, b, alpha); }
inline float subtract_fused(float a, float b, float alpha) { return fma(-alpha, b, a); }
