// Shared by the normalisations of rows.
#pragma once

#include "lib/compute.h"
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "norm/params.h"

// The mean of a row, then its variance around that mean: in every thread. The second pass also finds what rounding made
// of the mean (T. F. Chan, G. H. Golub, R. J. LeVeque: the corrected two-pass algorithm).
template <typename T>
inline float2 row_moments(device const T* x, uint n, threadgroup float* scratch, GroupThread g) {
  float sum = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint i = g.index; i < n; i += g.count) sum += float(x[i]);
  const float mean = tg_sum(sum, scratch, g) / float(n);
  float rest = 0.0f, squares = 0.0f;
  MPSX_REDUCE(+ : rest, squares)
  for (uint i = g.index; i < n; i += g.count) {
    const float d = float(x[i]) - mean;
    rest += d;
    squares += d * d;
  }
  const float off = tg_sum(rest, scratch, g) / float(n);
  return float2(mean + off, propagating_max(tg_sum(squares, scratch, g) / float(n) - off * off, 0.0f));
}
