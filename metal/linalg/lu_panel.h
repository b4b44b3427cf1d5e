// LU factorization of a panel. It processes a few columns at a time, which it keeps in registers.
#pragma once

#include "linalg/field.h"

// A thread's share of the panel: ROWS rows of `columns` columns, 32 numbers in registers. Column 0 is the next one to
// be eliminated.
template <uint ROWS>
struct HeldRows {
  enum : uint { columns = 32 / ROWS };
  float x[ROWS][columns];

  METAL_FUNC void load(device const float* a, long down, long across, uint rows, uint width, GroupThread g) {
    MPSX_UNROLL
    for (uint r = 0; r < ROWS; ++r) {
      const uint i = g.index + r * g.count;
      device const float* row = a + long(i) * down;
      MPSX_UNROLL
      for (uint j = 0; j < columns; ++j) x[r][j] = i < rows && j < width ? row[long(j) * across] : 0.0f;
    }
  }
  // Copies row i to threadgroup memory, using the thread that holds it.
  METAL_FUNC void publish(uint i, threadgroup float* row, GroupThread g) const {
    MPSX_UNROLL
    for (uint r = 0; r < ROWS; ++r) {
      if (g.index + r * g.count != i) continue;
      MPSX_UNROLL
      for (uint j = 0; j < columns; ++j) row[j] = x[r][j];
    }
  }
  METAL_FUNC void replace(uint i, threadgroup const float* row, GroupThread g) {
    MPSX_UNROLL
    for (uint r = 0; r < ROWS; ++r) {
      if (g.index + r * g.count != i) continue;
      MPSX_UNROLL
      for (uint j = 0; j < columns; ++j) x[r][j] = row[j];
    }
  }
};

struct LuPanel {
  device float* a;
  long down, across;
  uint rows, columns, offset;
};

// Applies the updates from all preceding columns to columns [first, first + width) of a panel, and then factors these
// columns. Returns the 1-based index of the first zero pivot, or 0 if there is none.
template <uint ROWS>
inline uint eliminate_held(LuPanel p, uint first, uint width, device int* pivots, threadgroup float* pivot_row,
                           threadgroup float* other_row, threadgroup Pivot* scratch, GroupThread g) {
  typedef HeldRows<ROWS> Rows;
  Rows panel;
  panel.load(p.a + long(first) * p.across, p.down, p.across, p.rows, width, g);
  for (uint k = 0; k < first; ++k) {
    panel.publish(k, pivot_row, g);
    tg_all_barrier();
    for (uint j = g.index; j < width; j += g.count)
      p.a[long(k) * p.down + long(first + j) * p.across] = pivot_row[j];
    MPSX_UNROLL
    for (uint r = 0; r < ROWS; ++r) {
      const uint i = g.index + r * g.count;
      const float multiplier = i > k && i < p.rows ? p.a[long(i) * p.down + long(k) * p.across] : 0.0f;
      MPSX_UNROLL
      for (uint j = 0; j < Rows::columns; ++j) panel.x[r][j] = fma(multiplier, -pivot_row[j], panel.x[r][j]);
    }
    tg_barrier();
  }
  uint singular = 0;
  for (uint step = 0; step < width; ++step) {
    const uint k = first + step;
    Pivot best = {-1.0f, k};
    MPSX_UNROLL
    for (uint r = 0; r < ROWS; ++r) {
      const uint i = g.index + r * g.count;
      const float size = fabs(panel.x[r][0]);
      if (i >= k && i < p.rows && size > best.key) best = {size, i};
    }
    best = tg_reduce<CombineArgMax>(best, scratch, g);
    const uint row = best.index;
    panel.publish(row, pivot_row, g);
    panel.publish(k, other_row, g);
    if (g.index == 0) pivots[k] = int(p.offset + row + 1);
    tg_all_barrier();
    panel.replace(row, other_row, g);
    // Row k is final: store its part in registers to device memory. Elsewhere, swap rows k and `row` in device memory.
    for (uint j = g.index; j < p.columns; j += g.count) {
      device float* upper = p.a + (long(k) * p.down + long(j) * p.across);
      device float* lower = p.a + (long(row) * p.down + long(j) * p.across);
      if (j >= k && j < first + width) {
        *upper = pivot_row[j - k];
      } else if (row != k) {
        const float value = *lower;
        *lower = *upper;
        *upper = value;
      }
    }
    const bool zero = best.key == 0.0f;
    if (zero && singular == 0) singular = p.offset + k + 1;
    const Divisor<float> pivot = divisor(zero ? 1.0f : pivot_row[0]);
    MPSX_UNROLL
    for (uint r = 0; r < ROWS; ++r) {
      const uint i = g.index + r * g.count;
      const float multiplier = pivot.divide(panel.x[r][0]);
      if (i > k && i < p.rows) p.a[long(i) * p.down + long(k) * p.across] = multiplier;
      MPSX_UNROLL
      for (uint j = 0; j + 1 < Rows::columns; ++j)
        panel.x[r][j] = fma(multiplier, -pivot_row[j + 1], panel.x[r][j + 1]);
    }
  }
  tg_all_barrier();
  return singular;
}
