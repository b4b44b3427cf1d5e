// Functions for the reductions that torch.compile generates, in addition to lib/collective.h.
#pragma once

#include "lib/collective.h"
#include "lib/float_order.h"
#include "lib/vec.h"

inline Moments shuffle_down(Moments m, ushort by) {
  return {shuffle_down(m.count, by), shuffle_down(m.mean, by), shuffle_down(m.m2, by)};
}
inline Moments shuffle_xor(Moments m, ushort by) {
  return {shuffle_xor(m.count, by), shuffle_xor(m.mean, by), shuffle_xor(m.m2, by)};
}
struct CombineAny {
  static bool apply(bool a, bool b) { return a || b; }
};

// N adjacent elements in the words that they were loaded as. In a Vec, NVIDIA's compiler gives each 16-bit element a
// register of its own; here, two of them share one.
template <typename T, uint N>
struct PackedVec {
  uint4 words[(N * sizeof(T) + 15) / 16];
  T get(uint i) const { return VecWords<T, sizeof(T)>::get(words[i / at_once<T, N>], i % at_once<T, N>); }
};
// Loads or stores N adjacent elements, one by one if their address may not be aligned.
template <uint N, typename T>
inline PackedVec<T, N> load_elements(device const T* from, bool aligned) {
  constexpr uint each = at_once<T, N>;
  PackedVec<T, N> values;
  MPSX_UNROLL for (uint i = 0; i < N; i += each) {
    if (aligned) {
      values.words[i / each] = load_words<each * sizeof(T)>(from + i);
    } else {
      values.words[i / each] = uint4(0u);
      MPSX_UNROLL for (uint j = 0; j < each; ++j) {
        VecWords<T, sizeof(T)>::set(values.words[i / each], j, from[i + j]);
      }
    }
  }
  return values;
}
template <uint N, typename T>
inline void store_elements(device T* to, Vec<T, N> values, bool aligned) {
  if (aligned) {
    store_vec(to, values);
    return;
  }
  MPSX_UNROLL for (uint i = 0; i < N; ++i) to[i] = values.v[i];
}

// Reduces N adjacent columns per thread. N, LANES (the threads of a row of the tile), and THREADS (of the threadgroup)
// are powers of two. Every thread gets the results of its columns. `scratch` needs N * LANES elements for each SIMD
// group, or for each row if a row has more threads than a SIMD group.
template <typename Combine, uint N, uint LANES, uint THREADS, typename T>
inline void reduce_columns(thread T* values, threadgroup T* scratch, uint index) {
  constexpr uint kWidth = THREADS < 32 ? THREADS : 32, kRows = kWidth > LANES ? kWidth / LANES : 1;
  constexpr uint kTogether = kRows * LANES, kParts = THREADS / kTogether, kColumns = N * LANES;
  constexpr uint kKept = N > kRows ? N / kRows : 1;
  if (THREADS == LANES) return;
  // Lanes with the same columns exchange halves of their results until each has N / kRows columns.
  uint first = 0;
  bool is_copy = false;
  MPSX_UNROLL for (uint distance = kTogether / 2; distance >= LANES; distance /= 2) {
    const bool is_upper = (index & distance) != 0;
    const uint kept = N * distance / kTogether;
    MPSX_UNROLL for (uint j = 0; j < N / 2; ++j) {
      if (j < kept && is_upper) {
        const T low = values[j];
        values[j] = values[kept + j];
        values[kept + j] = low;
      }
      if (j < kept) values[j] = Combine::apply(values[j], shuffle_xor(values[kept + j], ushort(distance)));
    }
    if (kept == 0) values[0] = Combine::apply(values[0], shuffle_xor(values[0], ushort(distance)));
    is_copy = is_copy || (kept == 0 && is_upper);
    first += is_upper ? kept : 0;
  }
  // Each part has its columns rotated, so that the lanes below access different banks.
  const uint column = index % LANES, part = index / kTogether;
  if (!is_copy) {
    MPSX_UNROLL for (uint j = 0; j < kKept; ++j) {
      scratch[part * kColumns + ((first + j) * LANES + column + part) % kColumns] = values[j];
    }
  }
  tg_barrier();
  if (kParts > 1) {
    // kParts adjacent lanes reduce a column: each loads the result of one part. The sum replaces that of part 0, which
    // no other lane reads.
    for (uint base = 0; base < kColumns; base += THREADS / kParts) {
      const uint of = base + index / kParts, from = index % kParts;
      T value = values[0];
      if (of < kColumns) value = scratch[from * kColumns + (of + from) % kColumns];
      MPSX_UNROLL for (uint distance = kParts / 2; distance > 0; distance /= 2) {
        value = Combine::apply(value, shuffle_xor(value, ushort(distance)));
      }
      if (from == 0 && of < kColumns) scratch[of] = value;
    }
    tg_barrier();
  }
  MPSX_UNROLL for (uint j = 0; j < N; ++j) values[j] = scratch[j * LANES + column];
  tg_barrier();
}

inline bool is_finite(float x) { return !is_nan(x) && !is_infinite(x); }

// Moments of some of a column's rows during a reduction: their number, a finite estimate of the mean, the sum of the
// deviations from it, and the sum of their squares.
struct MomentSums {
  float count, mean, sum, m2;
};
// Adds moments, or a value. `index` counts the calls for a column. The first mean becomes the estimate.
inline MomentSums add_to_moments(MomentSums m, Moments part, uint index) {
  if (index == 0 && is_finite(part.mean)) m.mean = part.mean;
  const float deviation = part.mean - m.mean, deviations = part.count * deviation;
  return {m.count + part.count, m.mean, m.sum + deviations, fma(deviations, deviation, m.m2 + part.m2)};
}
inline MomentSums add_to_moments(MomentSums m, float x, uint index) {
  if (index == 0 && is_finite(x)) m.mean = x;
  const float deviation = x - m.mean;  // the count is the same for all columns, which saves registers
  return {float(index + 1), m.mean, m.sum + deviation, fma(deviation, deviation, m.m2)};
}
// Returns the mean of the rows, if it is finite.
inline float mean_of(MomentSums m) {
  const float mean = m.mean + m.sum / max(m.count, 1.0f);
  return is_finite(mean) ? mean : m.mean;
}
// Replaces the estimate of the mean.
inline MomentSums with_mean(MomentSums m, float mean) {
  const float shift = m.mean - mean, shifts = m.count * shift;
  return {m.count, mean, m.sum + shifts, fma(shift, m.sum + m.sum + shifts, m.m2)};
}
// Improves the estimate of the mean if the error is more than half the root mean square deviation. A correction of few
// bits keeps the sums of numbers of few bits exact.
inline MomentSums centered(MomentSums m) {
  const bool is_close = 4.0f * m.sum * m.sum <= m.count * m.m2;
  const float correction = as_type<float>(as_type<uint>(mean_of(m) - m.mean) & 0xfff80000u);
  return with_mean(m, is_close ? m.mean : m.mean + correction);
}

// Reduces the moments of N adjacent columns per thread, like reduce_columns. `count` is the number of rows, or 0 if it
// differs between columns. Threads with the same columns adopt the mean of the rows of one of them, so that they only
// have to add their sums. An infinite mean stays infinite, as in a sum.
template <uint N, uint LANES, uint THREADS>
inline void reduce_moments(thread MomentSums* moments, threadgroup float2* scratch, uint index, float count) {
  const uint column = index % LANES;
  if (index < LANES) {
    MPSX_UNROLL for (uint j = 0; j < N; ++j) scratch[j * LANES + column].x = mean_of(moments[j]);
  }
  tg_barrier();
  float2 sums[N], counts[N];
  MPSX_UNROLL for (uint j = 0; j < N; ++j) {
    moments[j] = with_mean(moments[j], scratch[j * LANES + column].x);
    sums[j] = float2(moments[j].sum, moments[j].m2);
    counts[j] = float2(count == 0.0f ? moments[j].count : count);
  }
  tg_barrier();
  reduce_columns<CombineSum, N, LANES, THREADS>(sums, scratch, index);
  if (count == 0.0f) reduce_columns<CombineSum, N, LANES, THREADS>(counts, scratch, index);
  MPSX_UNROLL for (uint j = 0; j < N; ++j) {
    const float sum = sums[j].x, share = sum / max(counts[j].x, 1.0f), m2 = fma(-sum, share, sums[j].y);
    moments[j] = {counts[j].x, moments[j].mean + share, 0.0f, is_nan(m2) && is_finite(sum) ? INFINITY : m2};
  }
}
