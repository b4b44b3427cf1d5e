// Copies and casts. Copies of one type move bits, named by their size (i8 i16 i32 i64); casts are named by both types.
#include "elementwise/kernels.h"
#include "lib/collective.h"

// As PyTorch casts: anything to bool is "not zero"; float to an unsigned type goes through a signed one.
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

template <typename T, typename R>
kernel void cast_dense(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                       constant ScalarParams& s [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  MPSX_EACH_LANE(T, i, tid, s.count) out[i] = convert<R, compute_t<T>>::from(compute_t<T>(x[i]));
}
template <typename T, typename R>
kernel void cast_any(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                     constant ScalarParams& s [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                     uint3 gid [[thread_position_in_grid]]) {
  const T value = x[row_offset(p, 1, gid) + long(gid.x) * p.stride[1][0]];
  out[row_offset(p, 0, gid) + long(gid.x) * p.stride[0][0]] = convert<R, compute_t<T>>::from(compute_t<T>(value));
}

template <typename T>
kernel void copy_dense(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                       constant ScalarParams& s [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  MPSX_EACH_LANE(T, i, tid, s.count) out[i] = x[i];
}
// SO and SI: strides along x that are known (1, or 0 for a broadcast input).
template <typename T, int SO, int SI>
kernel void copy_strided(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                         constant ScalarParams& s [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                         uint3 gid [[thread_position_in_grid]]) {
  device const T* from = x + row_offset(p, 1, gid);
  device T* to = out + row_offset(p, 0, gid);
  to[long(gid.x) * x_stride<SO>(p, 0)] = from[long(gid.x) * x_stride<SI>(p, 1)];
}

#define COPY(T, TAG, ...)                                                        \
  MPSX_KERNEL("copy_dense_" #TAG, copy_dense<T>)                                 \
  MPSX_KERNEL("copy_rows_11_" #TAG, copy_strided<T, 1, 1>)                       \
  MPSX_KERNEL("copy_rows_10_" #TAG, copy_strided<T, 1, 0>)                       \
  MPSX_KERNEL("copy_rows_1n_" #TAG, copy_strided<T, 1, kAnyStride>)              \
  MPSX_KERNEL("copy_any_" #TAG, copy_strided<T, kAnyStride, kAnyStride>)
COPY(char, i8)
COPY(short, i16)
COPY(int, i32)
COPY(long, i64)
// Short rows, or parts of them, as elements: what a GPU's thread moves at once, and a CPU's. All lie at multiples of 16.
#if MPSX_VECTOR_BYTES
typedef uint4 Line16;
#else
template <uint kUints> struct Line {
  typedef uint all __attribute__((ext_vector_type(kUints), aligned(16)));
  all bits;
};
typedef Line<4> Line16;
MPSX_KERNEL("copy_lines_32", copy_strided<Line<8>, kAnyStride, kAnyStride>)
MPSX_KERNEL("copy_lines_64", copy_strided<Line<16>, kAnyStride, kAnyStride>)
MPSX_KERNEL("copy_lines_128", copy_strided<Line<32>, kAnyStride, kAnyStride>)
#endif
MPSX_KERNEL("copy_lines_16", copy_strided<Line16, kAnyStride, kAnyStride>)

// Rows of s.count elements, at most kBriefRow bytes, that are copied by two moves which may overlap, or made of one
// element (SAME). A thread's index is that of a row.
#if !MPSX_VECTOR_BYTES
template <uint kBytes>
inline void move_ends(device char* to, const char* from, uint bytes, bool same) {
  char first[kBytes], last[kBytes];
  __builtin_memcpy(first, from, kBytes);
  __builtin_memcpy(last, same ? from : from + (bytes - kBytes), kBytes);
  __builtin_memcpy(to, first, kBytes);
  __builtin_memcpy(to + (bytes - kBytes), last, kBytes);
}
template <typename T, bool SAME>
kernel void copy_brief(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                       constant ScalarParams& s [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                       uint3 gid [[thread_position_in_grid]]) {
  enum : uint { kMost = 32 };  // bytes of one of the moves
  T repeated[kMost / sizeof(T)];
  device const T* own = x + row_offset(p, 1, gid) + long(gid.x) * p.stride[1][0];
  device char* to = (device char*)(out + row_offset(p, 0, gid) + long(gid.x) * p.stride[0][0]);
  if (SAME) {
    const T value = *own;
    MPSX_VECTORIZE
    for (uint i = 0; i < kMost / sizeof(T); ++i) repeated[i] = value;
  }
  const char* from = SAME ? (const char*)repeated : (const char*)own;
  const uint bytes = s.count * uint(sizeof(T));
  if (bytes >= 32)
    move_ends<32>(to, from, bytes, SAME);
  else if (bytes >= 16)
    move_ends<16>(to, from, bytes, SAME);
  else if (bytes >= 8)
    move_ends<8>(to, from, bytes, SAME);
  else if (bytes >= 4)
    move_ends<4>(to, from, bytes, SAME);
  else
    move_ends<2>(to, from, bytes, SAME);
}
#define BRIEF(T, TAG)                                    \
  MPSX_KERNEL("copy_brief_" #TAG, copy_brief<T, false>)  \
  MPSX_KERNEL("copy_brief_same_" #TAG, copy_brief<T, true>)
BRIEF(char, i8)
BRIEF(short, i16)
BRIEF(int, i32)
BRIEF(long, i64)
#endif

#define CAST(T, TAG, R, RTAG)                                       \
  MPSX_KERNEL("cast_dense_" #TAG "_" #RTAG, cast_dense<T, R>)       \
  MPSX_KERNEL("cast_any_" #TAG "_" #RTAG, cast_any<T, R>)
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
CAST(bool, bool, int, i32) CAST(bool, bool, short, i16) CAST(bool, bool, uchar, u8)

// A transposition: the output is contiguous along x, the input along y. A threadgroup moves a square tile by way of
// threadgroup memory, so that both sides are touched in runs.
enum : uint { kTile = MPSX_VECTOR_BYTES ? kTransposeTile : kWideTransposeTile };
#if MPSX_VECTOR_BYTES
template <typename T>
inline void move_tile(device T* to, device const T* from, long out_stride, long in_stride, uint nx, uint ny,
                      threadgroup T* tile, uint index, uint count) {
  for (uint i = 0; i < nx; ++i)
    for (uint j = index; j < ny; j += count) tile[j * (kTile + 1) + i] = from[long(i) * in_stride + j];
  tg_barrier();
  for (uint j = 0; j < ny; ++j)
    for (uint i = index; i < nx; i += count) to[long(j) * out_stride + i] = tile[j * (kTile + 1) + i];
}
#else
// A CPU takes rows of the input into its cache strip by strip, which the prefetcher sees through, and from there squares
// that registers hold to the output.
enum : uint { kStripBytes = 256 };
enum : long { kNearBytes = 1536 };  // rows as near as this are read where they lie
enum : uint { kWide = 16 };         // where squares of 8 overlap little

// A row of a square. Zipping row k with row k + side / 2, log2(side) times over, turns the square.
template <typename T, uint kSide> struct SquareRow;
template <typename T> struct SquareRow<T, 4> {
  typedef T row __attribute__((ext_vector_type(4)));
  static row low(row a, row b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
  static row high(row a, row b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
};
template <typename T> struct SquareRow<T, 8> {
  typedef T row __attribute__((ext_vector_type(8)));
  static row low(row a, row b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
  static row high(row a, row b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
};
template <uint kSide, typename T, typename From>
inline void turn_square(device T* to, From from, long out_stride, long stride) {
  typedef SquareRow<T, kSide> Row;
  typename Row::row rows[kSide], zipped[kSide];
  for (uint a = 0; a < kSide; ++a) __builtin_memcpy(&rows[a], from + a * stride, sizeof(rows[a]));
  for (uint times = 1; times < kSide; times *= 2) {
    for (uint a = 0; a < kSide / 2; ++a) {
      zipped[2 * a] = Row::low(rows[a], rows[a + kSide / 2]);
      zipped[2 * a + 1] = Row::high(rows[a], rows[a + kSide / 2]);
    }
    for (uint a = 0; a < kSide; ++a) rows[a] = zipped[a];
  }
  for (uint a = 0; a < kSide; ++a) __builtin_memcpy(to + a * out_stride, &rows[a], sizeof(rows[a]));
}
// `from`: nx rows of `height` elements, at least a square each; the last squares overlap those before them.
template <uint kSide, typename T, typename From>
inline void turn_squares(device T* to, From from, long out_stride, long stride, uint nx, uint height) {
  for (uint y = 0; y < height; y += kSide)
    for (uint x = 0; x < nx; x += kSide) {
      const long i = min(x, nx - kSide), j = min(y, height - kSide);
      turn_square<kSide>(to + j * out_stride + i, from + i * stride + j, out_stride, stride);
    }
}
template <typename T, typename From>
inline void move_squares(device T* to, From from, long out_stride, long stride, uint nx, uint height) {
  const uint narrow = min(nx, height);
  if (narrow >= kWide && sizeof(T) < 8)
    turn_squares<8>(to, from, out_stride, stride, nx, height);
  else if (narrow >= 4)
    turn_squares<4>(to, from, out_stride, stride, nx, height);
  else
    for (uint j = 0; j < height; ++j)
      for (uint i = 0; i < nx; ++i) to[long(j) * out_stride + i] = from[long(i) * stride + j];
}
template <typename T>
inline void move_tile(device T* to, device const T* from, long out_stride, long in_stride, uint nx, uint ny,
                      threadgroup T* strip, uint, uint) {
  const uint kStrip = kStripBytes / sizeof(T);
  for (uint y = 0; y < ny; y += kStrip) {
    const uint height = min(kStrip, ny - y);
    device T* target = to + long(y) * out_stride;
    if (in_stride * long(sizeof(T)) <= kNearBytes) {
      move_squares(target, from + y, out_stride, in_stride, nx, height);
      continue;
    }
    for (uint i = 0; i < nx; ++i) {
      device const T* row = from + long(i) * in_stride + y;
      MPSX_VECTORIZE
      for (uint j = 0; j < height; ++j) strip[i * kStrip + j] = row[j];
    }
    move_squares(target, strip, out_stride, long(kStrip), nx, height);
  }
}
#endif
template <typename T>
kernel void copy_transposed(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                            constant StridedParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
#if MPSX_VECTOR_BYTES
  threadgroup T tile[kTile * (kTile + 1)];  // a column more than needed: its banks then differ from row to row
#else
  threadgroup T tile[kTile * kStripBytes / sizeof(T)];
#endif
  const uint x0 = g.group.x * kTile, y0 = g.group.y * kTile;
  const uint nx = min(p.size[0] - x0, uint(kTile)), ny = min(p.size[1] - y0, uint(kTile));
  const uint3 plane = uint3(0, 0, g.group.z);
  device const T* from = x + row_offset(p, 1, plane) + long(x0) * p.stride[1][0] + y0;
  device T* to = out + row_offset(p, 0, plane) + long(y0) * p.stride[0][1] + x0;
  move_tile(to, from, p.stride[0][1], p.stride[1][0], nx, ny, tile, g.index, g.count);
}
MPSX_KERNEL("copy_transposed_i8", copy_transposed<char>)
MPSX_KERNEL("copy_transposed_i16", copy_transposed<short>)
MPSX_KERNEL("copy_transposed_i32", copy_transposed<int>)
MPSX_KERNEL("copy_transposed_i64", copy_transposed<long>)
