// How dense loops read and write an element. On a CPU complex numbers are two floats there: a load of both is no float's,
// and the loop would not become one of vectors.
#pragma once

#include "lib/types.h"

template <typename T, typename I>
inline T element(device const T* x, I i) { return x[i]; }
template <typename T, typename I>
inline void set_element(device T* x, I i, T value) { x[i] = value; }
#if !MPSX_VECTOR_BYTES
template <typename I>
inline float2 element(device const float2* x, I i) {
  device const float* parts = (device const float*)x;
  return float2(parts[2 * ulong(i)], parts[2 * ulong(i) + 1]);
}
template <typename I>
inline void set_element(device float2* x, I i, float2 value) {
  device float* parts = (device float*)x;
  parts[2 * ulong(i)] = value.x;
  parts[2 * ulong(i) + 1] = value.y;
}
#endif
