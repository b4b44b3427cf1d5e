// Copies and casts. Copies without a cast move raw bits, so their kernels are named by element size (i8 i16 i32 i64).
// Casts are named by both types.
#include "elementwise/params.h"
#include "lib/compute.h"
#include "lib/index.h"
#include "lib/collective.h"
#include "lib/instantiate.h"
#include "lib/vec_loop.h"

// Casts like PyTorch: nonzero numbers become true, and floats are converted to narrow integers via int.
template <typename R, typename C>
struct convert {
  static R from(C x) { return R(x); }
};
template <typename C>
struct convert<bool, C> {
  static bool from(C x) { return x != C(0); }
};
template <>
struct convert<uchar, float> {
  static uchar from(float x) { return uchar(int(x)); }
};
template <>
struct convert<char, float> {
  static char from(float x) { return char(int(x)); }
};
template <>
struct convert<short, float> {
  static short from(float x) { return short(int(x)); }
};

template <uint N, typename T, typename R>
inline void cast(VecLoop<N, true> d, device R* out, long to, device const T* x, long from) {
  typedef compute_t<T> C;
  for (; d.more(); d.next()) {
    const VecBatch<T, N> v = load_vecs(d, x, from);
    VecBatch<R, N> y;
    MPSX_UNROLL for (uint i = 0; i < y.count; ++i) y.at[i] = convert<R, C>::from(C(v.at[i]));
    store_vecs(d, out, to, y);
  }
}
template <typename T, typename R>
kernel void cast_dense(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                       constant StridedParams& p [[buffer(2)]], MPSX_GRID_PARAMETERS) {
  device R* to = out + row_offset(p, 0, gid);
  device const T* from = x + row_offset(p, 1, gid);
  MPSX_VEC_LOOPS(T, R, p.size[0], cast, to, 1, from, 1);
}
template <typename T, typename R>
kernel void cast_strided(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                         constant StridedParams& p [[buffer(2)]], MPSX_GRID_PARAMETERS) {
  cast(MPSX_SCALAR_LOOP, out + row_offset(p, 0, gid), p.stride[0][0], x + row_offset(p, 1, gid), p.stride[1][0]);
}

template <uint N, typename T>
inline void copy(VecLoop<N, true> d, device T* out, long to, device const T* x, long from) {
  for (; d.more(); d.next()) store_vecs(d, out, to, load_vecs(d, x, from));
}
// S is the stride of the input along x: 1, or 0 if the input is broadcast. The output has stride 1.
template <typename T, uint S>
kernel void copy_rows(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                      constant StridedParams& p [[buffer(2)]], MPSX_GRID_PARAMETERS) {
  // The repeated elements may be the first column of the output. Writing them does not change them.
  if (S == 0) {
    MPSX_ALLOW_RACES(out);
  }
  device T* to = out + row_offset(p, 0, gid);
  device const T* from = x + row_offset(p, 1, gid);
  MPSX_VEC_LOOPS(T, T, p.size[0], copy, to, 1, from, S);
}
template <typename T>
kernel void copy_strided(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                         constant StridedParams& p [[buffer(2)]], MPSX_GRID_PARAMETERS) {
  copy(MPSX_SCALAR_LOOP, out + row_offset(p, 0, gid), p.stride[0][0], x + row_offset(p, 1, gid), p.stride[1][0]);
}

// Transposing copy: the output is contiguous along x and the input along y. Each threadgroup moves a square tile
// through threadgroup memory, so that both loads and stores coalesce. The rows of the tile are padded to avoid bank
// conflicts.
template <typename T>
kernel void copy_transposed(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                            constant StridedParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  constexpr uint side = transpose_side(sizeof(T)), pitch = side + (sizeof(T) < 4 ? 4 / sizeof(T) : 1);
  threadgroup T tile[side * pitch];
  const uint x0 = g.group.x * side, y0 = g.group.y * side;
  const uint nx = min(p.size[0] - x0, side), ny = min(p.size[1] - y0, side);
  const uint3 plane = uint3(0, 0, g.group.z);
  const long from_step = p.stride[1][0], to_step = p.stride[0][1];
  device const T* from = x + row_offset(p, 1, plane) + long(x0) * from_step + y0;
  device T* to = out + row_offset(p, 0, plane) + long(y0) * to_step + x0;
  // Issue several loads before the first store to overlap their latencies.
  constexpr uint several = 4;
  for (uint first = g.index; first < side * side; first += several * g.count) {
    T values[several];
    MPSX_UNROLL for (uint k = 0; k < several; ++k) {
      const uint e = first + k * g.count, i = e / side, j = e % side;
      if (i < nx && j < ny) values[k] = from[long(i) * from_step + j];
    }
    MPSX_UNROLL for (uint k = 0; k < several; ++k) {
      const uint e = first + k * g.count, i = e / side, j = e % side;
      if (i < nx && j < ny) tile[j * pitch + i] = values[k];
    }
  }
  tg_barrier();
  for (uint first = g.index; first < side * side; first += several * g.count) {
    MPSX_UNROLL for (uint k = 0; k < several; ++k) {
      const uint e = first + k * g.count, j = e / side, i = e % side;
      if (i < nx && j < ny) to[long(j) * to_step + i] = tile[j * pitch + i];
    }
  }
}

#define COPY(T, TAG, ...)                                      \
  MPSX_KERNEL("copy_dense_" #TAG, copy_rows<T, 1>)             \
  MPSX_KERNEL("copy_repeated_" #TAG, copy_rows<T, 0>)          \
  MPSX_KERNEL("copy_strided_" #TAG, copy_strided<T>)           \
  MPSX_KERNEL("copy_transposed_" #TAG, copy_transposed<T>)
COPY(char, i8)
COPY(short, i16)
COPY(int, i32)
COPY(long, i64)

#define CAST(T, TAG, R, RTAG)                                       \
  MPSX_KERNEL("cast_dense_" #TAG "_" #RTAG, cast_dense<T, R>)       \
  MPSX_KERNEL("cast_strided_" #TAG "_" #RTAG, cast_strided<T, R>)
#define CAST_FROM_FLOAT(T, TAG)                                                                           \
  CAST(T, TAG, bool, bool) CAST(T, TAG, uchar, u8) CAST(T, TAG, char, i8) CAST(T, TAG, short, i16)        \
  CAST(T, TAG, int, i32) CAST(T, TAG, long, i64)
#define CAST_FROM_INT(T, TAG)                                                                             \
  CAST(T, TAG, bool, bool) CAST(T, TAG, float, f32) CAST(T, TAG, half, f16) CAST(T, TAG, bfloat, bf16)
CAST_FROM_FLOAT(float, f32) CAST(float, f32, half, f16) CAST(float, f32, bfloat, bf16)
CAST_FROM_FLOAT(half, f16) CAST(half, f16, float, f32) CAST(half, f16, bfloat, bf16)
CAST_FROM_FLOAT(bfloat, bf16) CAST(bfloat, bf16, float, f32) CAST(bfloat, bf16, half, f16)
CAST_FROM_INT(long, i64) CAST(long, i64, int, i32) CAST(long, i64, short, i16) CAST(long, i64, char, i8)
CAST(long, i64, uchar, u8)
CAST_FROM_INT(int, i32) CAST(int, i32, long, i64) CAST(int, i32, short, i16) CAST(int, i32, char, i8)
CAST(int, i32, uchar, u8)
CAST_FROM_INT(short, i16) CAST(short, i16, long, i64) CAST(short, i16, int, i32) CAST(short, i16, char, i8)
CAST(short, i16, uchar, u8)
CAST_FROM_INT(char, i8) CAST(char, i8, long, i64) CAST(char, i8, int, i32) CAST(char, i8, short, i16)
CAST_FROM_INT(uchar, u8) CAST(uchar, u8, long, i64) CAST(uchar, u8, int, i32) CAST(uchar, u8, short, i16)
CAST(bool, bool, float, f32) CAST(bool, bool, half, f16) CAST(bool, bool, bfloat, bf16) CAST(bool, bool, long, i64)
CAST(bool, bool, int, i32) CAST(bool, bool, short, i16) CAST(bool, bool, char, i8) CAST(bool, bool, uchar, u8)
