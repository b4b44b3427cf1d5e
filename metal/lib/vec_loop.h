// Loops over dense memory in 16-byte vectors. Adjacent threads access adjacent vectors. Each thread loads a few vectors
// before it stores any, to overlap their latencies.
#pragma once

#include "lib/vec.h"

// Number of elements per vector, which has 16 bytes of the larger of the two types.
template <typename T, typename R = T>
constexpr constant uint vec_size = 16 / (sizeof(T) > sizeof(R) ? sizeof(T) : sizeof(R));
// Number of vectors that a thread loads at a time. They have at most 16 elements, to limit registers and code size.
template <uint N>
constexpr constant uint batch = N > 8 ? 1 : N > 4 ? 2 : 4;

// The elements of a batch of vectors. Loops over them must be unrolled to keep the elements in registers.
template <typename T, uint N>
struct VecBatch {
  enum : uint { count = N * batch<N> };
  T at[N * batch<N>];
};

// Iterates over elements [begin, end) in vectors of N elements. N must divide the number of elements. Any number of
// threads in a grid row or in a threadgroup may share the loop.
//
//   for (VecLoop<4, true> d(gid.x, grid.x, 0, end); d.more(); d.next())
//     store_vecs(d, to, 1, load_vecs(d, from, 1));
template <uint N, bool GRID>
struct VecLoop {
  uint at, step, end;
  VecLoop(uint index, uint threads, uint begin, uint past)
      : at(begin + index * N), step(threads * N), end(past) {}
  bool more() const { return at < end; }
  void next() { at += batch<N> * step; }
  // Returns the offset of vector k of the batch. For vectors past the end, returns the offset of the first vector,
  // which is cheaper than a branch.
  uint vec_offset(uint k) const { return at + k * step < end ? at + k * step : at; }
  // Returns the offset of element i of the batch.
  uint position(uint i) const { return vec_offset(i / N) + i % N; }
};

// Returns how many elements at the start of a row are moved in vectors of N elements. The remaining elements are moved
// one at a time.
template <uint N>
inline uint vectorized_length(uint size, bool vectorized) { return N > 1 && vectorized ? size / N * N : 0; }

// Loops for kernels over rows (Launch::over), whose parameters MPSX_GRID_PARAMETERS declares. MPSX_VEC_LOOPS calls
// FUNCTION twice, with a VecLoop for the vectors of COUNT elements and with one for the tail. MPSX_SCALAR_LOOP is the
// loop to use if the stride is not 1.
#define MPSX_GRID_PARAMETERS uint3 gid [[thread_position_in_grid]], uint3 grid [[threads_per_grid]]
#define MPSX_VEC_LOOPS(T, R, COUNT, FUNCTION, ...)                                                            \
  const uint vectorized = vectorized_length<vec_size<T, R>>(COUNT, p.vectorized != 0);                        \
  if (vec_size<T, R> > 1) FUNCTION(VecLoop<vec_size<T, R>, true>(gid.x, grid.x, 0, vectorized), __VA_ARGS__); \
  FUNCTION(VecLoop<1, true>(gid.x, grid.x, vectorized, COUNT), __VA_ARGS__)
#define MPSX_SCALAR_LOOP VecLoop<1, true>(gid.x, grid.x, 0, p.size[0])
// MPSX_VEC_LOOPS for the COUNT elements of a threadgroup. `tid` is the thread's index, and `tpt` the number of threads.
#define MPSX_GROUP_VEC_LOOPS(T, COUNT, FUNCTION, ...)                                               \
  const uint vectorized = vectorized_length<vec_size<T>>(COUNT, p.vectorized != 0);                 \
  if (vec_size<T> > 1) FUNCTION(VecLoop<vec_size<T>, false>(tid, tpt, 0, vectorized), __VA_ARGS__); \
  FUNCTION(VecLoop<1, false>(tid, tpt, vectorized, COUNT), __VA_ARGS__)

// Loads the current batch. If N > 1, the stride must be 1, or 0 to repeat one element.
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
