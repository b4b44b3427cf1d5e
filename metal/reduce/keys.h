// Extrema are computed as the maximum of integer keys that sort in the same order as the elements (see ordered_max in
// lib/float_order.h).
#pragma once

#include "lib/compute.h"
#include "lib/collective.h"
#include "lib/float_order.h"

template <typename C> struct key_of { typedef int type; };
template <> struct key_of<long> { typedef long type; };
template <typename C> using key_of_t = typename key_of<C>::type;

// A lower bound on all keys.
template <typename K> struct lowest_key;
template <> struct lowest_key<int> {
  static int value() { return INT_MIN; }
};
template <> struct lowest_key<long> {
  static long value() { return LONG_MIN; }
};

// Returns the largest key of N elements. The overload for float compares floats and converts only the extremum to a
// key.
template <typename Key, uint N, typename C>
inline key_of_t<C> best_key(thread const C* v) {
  key_of_t<C> best = Key::of(v[0], 0.0f);
#pragma unroll
  for (uint j = 1; j < N; ++j) best = max(best, Key::of(v[j], 0.0f));
  return best;
}
template <typename Key, uint N>
inline int best_key(thread const float* v) {
  float best = v[0];
  bool nan = is_nan(v[0]);
#pragma unroll
  for (uint j = 1; j < N; ++j) {
    best = Key::better(best, v[j]);
    nan |= is_nan(v[j]);
  }
  return nan ? INT_MAX : Key::of(best, 0.0f);
}

struct MaxKey {
  static float better(float a, float b) { return fmax(a, b); }
  static int of(float x, float) { return ordered_max(x); }
  template <typename C> static key_of_t<C> of(C x, float) { return key_of_t<C>(x); }
  template <typename C> struct Decode {
    static C value(key_of_t<C> k) { return C(k); }
  };
};
template <> struct MaxKey::Decode<float> {
  static float value(int k) { return value_of_max(k); }
};
struct MinKey {
  static float better(float a, float b) { return fmin(a, b); }
  static int of(float x, float) { return ordered_min(x); }
  template <typename C> static key_of_t<C> of(C x, float) { return ~key_of_t<C>(x); }
  template <typename C> struct Decode {
    static C value(key_of_t<C> k) { return C(~k); }
  };
};
template <> struct MinKey::Decode<float> {
  static float value(int k) { return value_of_min(k); }
};
