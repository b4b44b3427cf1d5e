// 16-byte vector accesses ("packs") and dense loops over them. A thread loads a few packs before storing any, to
// overlap their latencies. Adjacent threads access adjacent packs.
#pragma once

#include "lib/types.h"

// N adjacent elements, moved in one or a few accesses. They are aligned to their total size, or to 16 bytes if that
// is less.
template <typename T, uint N>
struct Vec {
  T v[N];
};

// Extracts elements from 16 bytes loaded as words, because compilers may split an array of halves into smaller
// accesses.
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

// One access of 16 bytes, or of the whole pack if it is smaller.
template <uint BYTES>
struct VecAccess {};
template <>
struct VecAccess<16> {
  static uint4 load(device const uchar* p) { return *(device const uint4*)p; }
  static void store(device uchar* p, uint4 w) { *(device uint4*)p = w; }
};
template <>
struct VecAccess<8> {
  static uint4 load(device const uchar* p) {
    const uint2 words = *(device const uint2*)p;
    return uint4(words, 0u, 0u);
  }
  static void store(device uchar* p, uint4 w) { *(device uint2*)p = w.xy; }
};
template <>
struct VecAccess<4> {
  static uint4 load(device const uchar* p) { return uint4(*(device const uint*)p, 0u, 0u, 0u); }
  static void store(device uchar* p, uint4 w) { *(device uint*)p = w.x; }
};
template <>
struct VecAccess<2> {
  static uint4 load(device const uchar* p) { return uint4(*(device const ushort*)p, 0u, 0u, 0u); }
  static void store(device uchar* p, uint4 w) { *(device ushort*)p = ushort(w.x); }
};
template <>
struct VecAccess<1> {
  static uint4 load(device const uchar* p) { return uint4(*p, 0u, 0u, 0u); }
  static void store(device uchar* p, uint4 w) { *p = uchar(w.x); }
};

template <typename T, uint N>
constexpr constant uint at_once = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
template <uint N, typename T>
inline Vec<T, N> load_vec(device const T* from) {
  constexpr uint each = at_once<T, N>;
  Vec<T, N> values;
  MPSX_UNROLL for (uint i = 0; i < N; i += each) {
    const uint4 words = VecAccess<each * sizeof(T)>::load((device const uchar*)(from + i));
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
    VecAccess<each * sizeof(T)>::store((device uchar*)(to + i), words);
  }
}

// Elements per pack: 16 bytes of the larger type.
template <typename T, typename R = T>
constexpr constant uint vec_size = 16 / (sizeof(T) > sizeof(R) ? sizeof(T) : sizeof(R));
// Packs that a thread loads at once: at most 16 elements, to limit registers and code size.
template <uint N>
constexpr constant uint batch = N > 8 ? 1 : N > 4 ? 2 : 4;

// A batch of packs in registers. Loops over its elements are unrolled.
template <typename T, uint N>
struct VecBatch {
  enum : uint { count = N * batch<N> };
  T at[N * batch<N>];
};

// Iterates over elements [begin, end) in packs of N; their number must be a multiple of N. Works for any number of
// threads, in a grid row or a threadgroup.
//
//   for (VecLoop<4, true> d(gid.x, grid.x, 0, whole); d.more(); d.next())
//     store_vecs(d, to, 1, load_vecs(d, from, 1));
template <uint N, bool GRID>
struct VecLoop {
  uint at, step, end;
  VecLoop(uint index, uint threads, uint begin, uint past)
      : at(begin + index * N), step(threads * N), end(past) {}
  bool more() const { return at < end; }
  void next() { at += batch<N> * step; }
  // Offset of pack k of the batch. Packs past the end repeat the first one, which is cheaper than a branch.
  uint vec_offset(uint k) const { return at + k * step < end ? at + k * step : at; }
  // Offset of element i of the batch.
  uint position(uint i) const { return vec_offset(i / N) + i % N; }
};

// The number of a row's elements that are moved in packs of N. The rest are moved one at a time.
template <uint N>
inline uint vectorized_length(uint size, bool vectorized) { return N > 1 && vectorized ? size / N * N : 0; }

// For kernels over rows (Launch::over). MPSX_PACKS calls a function template, with the loop as its first argument,
// for the packs of COUNT elements, then for the remaining elements. MPSX_SINGLE_ELEMENTS loops over a row with
// strides other than 1.
#define MPSX_GRID_PARAMETERS uint3 gid [[thread_position_in_grid]], uint3 grid [[threads_per_grid]]
#define MPSX_VEC_LOOPS(T, R, COUNT, FUNCTION, ...)                                                            \
  const uint vectorized = vectorized_length<vec_size<T, R>>(COUNT, p.vectorized != 0);                        \
  if (vec_size<T, R> > 1) FUNCTION(VecLoop<vec_size<T, R>, true>(gid.x, grid.x, 0, vectorized), __VA_ARGS__); \
  FUNCTION(VecLoop<1, true>(gid.x, grid.x, vectorized, COUNT), __VA_ARGS__)
#define MPSX_SCALAR_LOOP VecLoop<1, true>(gid.x, grid.x, 0, p.size[0])
// MPSX_PACKS for thread `tid` of a threadgroup of `tpt` threads.
#define MPSX_GROUP_VEC_LOOPS(T, COUNT, FUNCTION, ...)                                               \
  const uint vectorized = vectorized_length<vec_size<T>>(COUNT, p.vectorized != 0);                 \
  if (vec_size<T> > 1) FUNCTION(VecLoop<vec_size<T>, false>(tid, tpt, 0, vectorized), __VA_ARGS__); \
  FUNCTION(VecLoop<1, false>(tid, tpt, vectorized, COUNT), __VA_ARGS__)

// Loads the current batch. Vectors of more than one element are contiguous, or repeat one element (stride 0).
template <uint N, bool GRID, typename T>
inline VecBatch<T, N> load_vecs(thread const VecLoop<N, GRID>& d, device const T* x, long stride) {
  VecBatch<T, N> v;
  if (N == 1) {
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) v.at[i] = x[long(d.vec_offset(i)) * stride];
  } else if (stride == 0) {
    const T same = x[0];
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) v.at[i] = same;
  } else {
    Vec<T, N> vecs[batch<N>];
    MPSX_UNROLL for (uint k = 0; k < batch<N>; ++k) vecs[k] = load_vec<N>(x + d.vec_offset(k));
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) v.at[i] = vecs[i / N].v[i % N];
  }
  return v;
}
template <uint N, bool GRID, typename T>
inline void store_vecs(thread const VecLoop<N, GRID>& d, device T* x, long stride, thread const VecBatch<T, N>& v) {
  MPSX_UNROLL for (uint k = 0; k < batch<N>; ++k) {
    if (N == 1) {
      x[long(d.vec_offset(k)) * stride] = v.at[k];
      continue;
    }
    Vec<T, N> values;
    MPSX_UNROLL for (uint i = 0; i < N; ++i) values.v[i] = v.at[k * N + i];
    store_vec(x + d.vec_offset(k), values);
  }
}
