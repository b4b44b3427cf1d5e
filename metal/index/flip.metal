// flip, tril and triu. These kernels copy raw bits, so they are named by element size.
#include "index/params.h"
#include "lib/index.h"
#include "lib/instantiate.h"
#include "lib/vec_loop.h"

// Reverses rows. Along x, the output is contiguous and the input has stride -1.
template <uint N, typename T>
inline void reverse_vecs(VecLoop<N, true> d, device T* out, device const T* in) {
  for (; d.more(); d.next()) {
    VecBatch<T, N> v;
    MPSX_UNROLL for (uint k = 0; k < batch<N>; ++k) {
      const Vec<T, N> raw = load_vec<N>(in - (long(d.vec_offset(k)) + N - 1));
      MPSX_UNROLL for (uint j = 0; j < N; ++j) v.at[k * N + j] = raw.v[N - 1 - j];
    }
    store_vecs(d, out, 1, v);
  }
}
template <typename T>
kernel void flip_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                      constant FlipParams& p [[buffer(2)]], MPSX_GRID_PARAMETERS) {
  device T* to = out + row_offset(p, 0, gid);
  device const T* from = in + row_offset(p, 1, gid);
  MPSX_VEC_LOOPS(T, T, p.size[0], reverse_vecs, to, from);
}

// tril and triu of dense matrices. triu zeros the columns before `edge`, and tril zeros the columns from `edge` on. gid
// = (columns, row, matrix).
template <uint N, typename T>
inline void keep_triangle(VecLoop<N, true> d, device T* out, device const T* in, uint edge, bool upper) {
  for (; d.more(); d.next()) {
    VecBatch<T, N> v = load_vecs(d, in, 1);
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) v.at[i] = (d.position(i) < edge) == upper ? T(0) : v.at[i];
    store_vecs(d, out, 1, v);
  }
}
template <typename T>
kernel void triangle(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant TriangleParams& p [[buffer(2)]], MPSX_GRID_PARAMETERS) {
  const ulong row = (ulong(gid.z) * p.rows + gid.y) * p.columns;
  const bool upper = p.upper != 0;
  // The first column that tril zeros or that triu keeps.
  const uint edge = uint(clamp(long(gid.y) + p.diagonal + (upper ? 0 : 1), 0L, long(p.columns)));
  MPSX_VEC_LOOPS(T, T, p.columns, keep_triangle, out + row, in + row, edge, upper);
}

#define MOVE(T, TAG)                             \
  MPSX_KERNEL("flip_rows_" #TAG, flip_rows<T>)   \
  MPSX_KERNEL("triangle_" #TAG, triangle<T>)
MOVE(char, i8)
MOVE(short, i16)
MOVE(int, i32)
MOVE(long, i64)
