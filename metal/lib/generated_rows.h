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

// Loads or stores N adjacent elements, one by one if their address may not be aligned.
template <uint N, typename T>
inline Vec<T, N> load_elements(device const T* from, bool aligned) {
  if (aligned) return load_vec<N>(from);
  Vec<T, N> values;
  MPSX_UNROLL for (uint i = 0; i < N; ++i) values.v[i] = from[i];
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

// Reduces N adjacent columns per thread. The threads of a row of the tile are LANES, a power of two, and the threads of
// the threadgroup are another one. Every thread gets the results of its columns. `scratch` needs N * LANES elements for
// each SIMD group, or for each row if a row has more threads than a SIMD group.
template <typename Combine, uint N, uint LANES, typename T>
inline void reduce_columns(thread T* values, threadgroup T* scratch, GroupThread g) {
  for (uint distance = min(g.width, g.count) / 2; distance >= LANES; distance /= 2) {
    MPSX_UNROLL for (uint j = 0; j < N; ++j) {
      values[j] = Combine::apply(values[j], shuffle_xor(values[j], ushort(distance)));
    }
  }
  const uint together = max(min(g.width, g.count), uint(LANES)), parts = g.count / together;
  if (parts == 1 && together == LANES) return;
  const uint column = g.index % LANES, part = g.index / together;
  if (g.index % together < LANES) {
    MPSX_UNROLL for (uint j = 0; j < N; ++j) scratch[(part * N + j) * LANES + column] = values[j];
  }
  tg_barrier();
  MPSX_UNROLL for (uint j = 0; j < N; ++j) {
    T value = scratch[j * LANES + column];
    for (uint i = 1; i < parts; ++i) value = Combine::apply(value, scratch[(i * N + j) * LANES + column]);
    values[j] = value;
  }
  tg_barrier();
}
