// Accesses to memory in 16-byte vectors. Adjacent threads access adjacent vectors. Each thread loads a few vectors
// before it stores any, to overlap their latencies.
#pragma once

#include "lib/types.h"

// N adjacent elements that are moved in one or a few accesses. They are aligned to their total size, up to 16 bytes.
template <typename T, uint N>
struct Vec {
  T v[N];
};

// Extracts elements from 16 bytes that were loaded as words. Compilers may split the load of an array of halves into
// smaller accesses.
template <typename T, uint SIZE>
struct VecWords {};
template <typename T>
struct VecWords<T, 1> {
  static T get(uint4 w, uint i) { return as_type<T>(uchar(w[i / 4] >> (i % 4 * 8))); }
  static void set(thread uint4& w, uint i, T x) { w[i / 4] |= uint(as_type<uchar>(x)) << (i % 4 * 8); }
};
template <>
struct VecWords<bool, 1> {
  static bool get(uint4 w, uint i) { return (w[i / 4] >> (i % 4 * 8) & 0xffu) != 0; }
  static void set(thread uint4& w, uint i, bool x) { w[i / 4] |= uint(x) << (i % 4 * 8); }
};
template <typename T>
struct VecWords<T, 2> {
  static T get(uint4 w, uint i) { return as_type<T>(ushort(w[i / 2] >> (i % 2 * 16))); }
  static void set(thread uint4& w, uint i, T x) { w[i / 2] |= uint(as_type<ushort>(x)) << (i % 2 * 16); }
};
template <typename T>
struct VecWords<T, 4> {
  static T get(uint4 w, uint i) { return as_type<T>(w[i]); }
  static void set(thread uint4& w, uint i, T x) { w[i] = as_type<uint>(x); }
};
template <typename T>
struct VecWords<T, 8> {
  static T get(uint4 w, uint i) { return as_type<T>(uint2(w[2 * i], w[2 * i + 1])); }
  static void set(thread uint4& w, uint i, T x) {
    const uint2 parts = as_type<uint2>(x);
    w[2 * i] = parts.x;
    w[2 * i + 1] = parts.y;
  }
};

// Loads or stores BYTES bytes, at most 16, in one access.
template <uint BYTES>
inline uint4 load_words(device const void* p) {
  if (BYTES == 16) return *(device const uint4*)p;
  if (BYTES == 8) {
    const uint2 words = *(device const uint2*)p;  // with a local copy, this remains a single access
    return uint4(words, 0u, 0u);
  }
  if (BYTES == 4) return uint4(*(device const uint*)p, 0u, 0u, 0u);
  return uint4(BYTES == 2 ? *(device const ushort*)p : *(device const uchar*)p, 0u, 0u, 0u);
}
template <uint BYTES>
inline void store_words(device void* p, uint4 w) {
  if (BYTES == 16) *(device uint4*)p = w;
  else if (BYTES == 8) *(device uint2*)p = w.xy;
  else if (BYTES == 4) *(device uint*)p = w.x;
  else if (BYTES == 2) *(device ushort*)p = ushort(w.x);
  else *(device uchar*)p = uchar(w.x);
}

template <typename T, uint N>
constexpr constant uint at_once = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
template <uint N, typename T>
inline Vec<T, N> load_vec(device const T* from) {
  constexpr uint each = at_once<T, N>;
  Vec<T, N> values;
  MPSX_UNROLL for (uint i = 0; i < N; i += each) {
    const uint4 words = load_words<each * sizeof(T)>(from + i);
    MPSX_UNROLL for (uint j = 0; j < each; ++j) values.v[i + j] = VecWords<T, sizeof(T)>::get(words, j);
  }
  return values;
}
template <uint N, typename T>
inline void store_vec(device T* to, Vec<T, N> values) {
  constexpr uint each = at_once<T, N>;
  MPSX_UNROLL for (uint i = 0; i < N; i += each) {
    uint4 words = uint4(0u);
    MPSX_UNROLL for (uint j = 0; j < each; ++j) VecWords<T, sizeof(T)>::set(words, j, values.v[i + j]);
    store_words<each * sizeof(T)>(to + i, words);
  }
}
