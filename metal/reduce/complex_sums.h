// How sums of complex numbers combine: part by part, each with its rounding errors.
#pragma once

#include "lib/columns.h"

struct CombineComplexSum {
  static float2 apply(float2 a, float2 b) { return a + b; }
};
template <>
struct Identity<CombineComplexSum, float2> {
  static float2 value() { return float2(0.0f); }
};
template <>
struct Fold<CombineComplexSum> {
  static void add(thread float2& total, thread float2& low, float2 block) {
    float re = total.x, im = total.y, low_re = low.x, low_im = low.y;
    Fold<CombineSum>::add(re, low_re, block.x);
    Fold<CombineSum>::add(im, low_im, block.y);
    total = float2(re, im);
    low = float2(low_re, low_im);
  }
  static float2 settle(float2 total, float2 low) {
    return float2(Fold<CombineSum>::settle(total.x, low.x), Fold<CombineSum>::settle(total.y, low.y));
  }
};
