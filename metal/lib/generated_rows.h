// Functions for the reductions that torch.compile generates, in addition to lib/collective.h.
#pragma once

#include "lib/collective.h"
#include "lib/float_order.h"
#include "lib/vec.h"

inline Moments shuffle_down(Moments m, ushort by) {
  return {shuffle_down(m.count, by), shuffle_down(m.mean, by), shuffle_down(m.m2, by)};
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
