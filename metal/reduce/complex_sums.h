// Sums of complex numbers. The real and the imaginary part are each compensated.
#pragma once

#include "lib/columns.h"

struct CombineComplexSum {
  static float2 apply(float2 a, float2 b) { return a + b; }
};
template <>
struct Init<CombineComplexSum, float2> {
  static float2 value() { return float2(0.0f); }
};
template <>
struct Accumulator<CombineComplexSum> {
  static void accumulate(thread float2& total, thread float2& low, float2 block) {
    float re = total.x, im = total.y, low_re = low.x, low_im = low.y;
    Accumulator<CombineSum>::accumulate(re, low_re, block.x);
    Accumulator<CombineSum>::accumulate(im, low_im, block.y);
    total = float2(re, im);
    low = float2(low_re, low_im);
  }
  static float2 finalize(float2 total, float2 low) {
    return float2(Accumulator<CombineSum>::finalize(total.x, low.x), Accumulator<CombineSum>::finalize(total.y, low.y));
  }
};
