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
// Adds a value to moments (Welford's algorithm). `share` is the reciprocal of the count after it. An infinite mean
// stays infinite, as in a sum.
inline Moments add_to_moments(Moments m, float x, float share) {
  const float delta = x - m.mean, mean = is_infinite(m.mean) ? m.mean + x : fma(delta, share, m.mean);
  return {m.count + 1.0f, mean, fma(delta, x - mean, m.m2)};
}
struct CombineAny {
  static bool apply(bool a, bool b) { return a || b; }
};

// N adjacent elements as loaded. Elements of 16 bits share registers, while those of a Vec have one each.
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
