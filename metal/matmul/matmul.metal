// Matrix multiplication: tiled GEMM for floating-point matrices, and GEMV for vectors and integers.
#include "lib/columns.h"
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "matmul/epilogue.h"

// Stores the output or, if K is split, the partial sums for matmul_split_k_reduce.
template <typename O>
struct SplitKEpilogue {
  MatmulEpilogue<O> output;
  device float* partials;
  uint N;
  bool split;
  METAL_FUNC void store(uint row, uint column, float acc) const {
    if (split)
      partials[ulong(row) * N + column] = acc;
    else
      output.store(row, column, acc);
  }
};

template <typename A, typename B, typename O, typename Shape>
[[max_total_threads_per_threadgroup(Shape::max_threads)]]
kernel void matmul(device O* out [[buffer(0)]], device const A* a [[buffer(1)]], device const B* b [[buffer(2)]],
                   device const O* c [[buffer(3)]], device const O* scale [[buffer(4)]],
                   constant MatmulParams& p [[buffer(5)]], device float* partials [[buffer(6)]],
                   MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  const uint batch = g.group.z / p.split_k, split = g.group.z % p.split_k;
  const uint k_begin = split * p.k_per_split, k_end = min(p.K, k_begin + p.k_per_split);
  const TileOffset tile = {g.group.y * Shape::BM, g.group.x * Shape::BN};
  const auto a_loader = matrix_loader<A>(a + long(batch) * p.a.batch, p.a.row, p.a.column, p.M, k_end, p.vectorize_a);
  const auto b_loader = matrix_loader<A>(b + long(batch) * p.b.batch, p.b.column, p.b.row, p.N, k_end, p.vectorize_b);
  const SplitKEpilogue<O> epilogue = {matmul_epilogue(out, c, scale, p, batch),
                                      partials + (p.split_k > 1 ? ulong(g.group.z) * p.M * p.N : 0), p.N,
                                      p.split_k > 1};
  gemm_tile<Shape>(a_loader, b_loader, k_begin, k_end, epilogue, p.M, p.N, tile, memory, g);
}

// Sums the partial results of the K splits. gid = (column, row, batch).
template <typename O>
kernel void matmul_split_k_reduce(device O* out [[buffer(0)]], device const O* c [[buffer(1)]],
                                  device const O* scale [[buffer(2)]], constant MatmulParams& p [[buffer(3)]],
                                  device const float* partials [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  const ulong size = ulong(p.M) * p.N;
  device const float* partial = partials + (ulong(gid.z) * p.split_k * size + ulong(gid.y) * p.N + gid.x);
  float sum = 0.0f;
  for (uint i = 0; i < p.split_k; ++i) sum += partial[i * size];
  matmul_epilogue(out, c, scale, p, gid.z).store(gid.y, gid.x, sum);
}

enum : uint { kDotChunk = 8192 };  // elements per partial sum of a dot product; bounds the error

// Returns this thread's share of the dot product of two contiguous vectors. `vectorized`: both are 16-byte aligned.
template <typename S, typename A, typename B>
inline S thread_dot(device const A* x, device const B* y, uint count, bool vectorized, RowGroup group) {
  enum : uint { kVec = 16 / sizeof(B) };
  const uint vectors = vectorized ? count / kVec : 0;
  S sum = S(0);
  for (uint first = group.index; first < vectors; first += kUnroll * group.count) {
    Vec<B, kVec> raw[kUnroll];
    S part = S(0);
#pragma unroll
    for (uint k = 0; k < kUnroll; ++k)
      if (first + k * group.count < vectors) raw[k] = load_vec<kVec>(y + (first + k * group.count) * kVec);
#pragma unroll
    for (uint k = 0; k < kUnroll; ++k) {
      if (first + k * group.count >= vectors) continue;
      const Vec<A, kVec> other = load_vec<kVec>(x + (first + k * group.count) * kVec);  // this load hits the cache
#pragma unroll
      for (uint j = 0; j < kVec; ++j) part += S(other.v[j]) * S(raw[k].v[j]);
    }
    sum += part;
  }
  for (uint k = vectors * kVec + group.index; k < count; k += group.count) sum += S(x[k]) * S(y[k]);
  return sum;
}

// GEMV for a matrix b whose columns are contiguous. Each row group computes one output element as a dot product.
template <typename A, typename B, typename O>
kernel void gemv(device O* out [[buffer(0)]], device const A* a [[buffer(1)]], device const B* b [[buffer(2)]],
                 device const O* c [[buffer(3)]], device const O* scale [[buffer(4)]],
                 constant MatmulParams& p [[buffer(5)]], MPSX_GROUP_PARAMETERS) {
  typedef accumulator_t<O> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup S scratch[kScratch];
  const RowGroup group = row_group(p.N, p.row_threads, g);
  if (group.row >= p.N) return;
  const uint column = group.row, row = g.group.y, batch = g.group.z;
  device const A* x = a + (long(batch) * p.a.batch + long(row) * p.a.row);
  device const B* y = b + (long(batch) * p.b.batch + long(column) * p.b.column);
  const long x_stride = p.a.column, y_stride = p.b.row;
  S sum = S(0);
  for (uint first = 0; first < p.K; first += kDotChunk) {
    const uint last = min(first + kDotChunk, p.K);
    S part = S(0);
    if (x_stride == 1 && y_stride == 1) {
      part = thread_dot<S>(x + first, y + first, last - first, p.vectorize_a && p.vectorize_b, group);
    } else {
      for (uint k = first + group.index; k < last; k += group.count)
        part += S(x[long(k) * x_stride]) * S(y[long(k) * y_stride]);
    }
    sum += part;
  }
  sum = rg_reduce<CombineSum>(sum, scratch, group, g);
  if (group.index == 0) matmul_epilogue(out, c, scale, p, batch).store(row, column, sum);
}

// A row of b, multiplied by an element of a.
template <typename S, typename B>
struct ScaledRow {
  template <uint N> using Raw = Vec<B, N>;
  device const B* x;
  S factor;
  template <uint N> Vec<B, N> load(uint c) const { return load_vec<N>(x + c); }
  template <uint N> S value(Vec<B, N> raw, uint, uint j, uint) const { return factor * S(raw.v[j]); }
  S scalar(uint c, uint) const { return factor * S(x[c]); }
};
template <typename S, typename A, typename B>
struct ScaledRows {
  typedef ScaledRow<S, B> Row;
  device const A* a;
  device const B* b;
  long a_step, b_step;
  Row row(ulong k) const { return {b + long(k) * b_step, S(a[long(k) * a_step])}; }
};

// GEMV for a matrix b whose rows are contiguous. Each threadgroup computes kGemvColumns columns of one output row, over
// one K split.
template <typename A, typename B, typename O>
kernel void gemv_t(device O* out [[buffer(0)]], device const A* a [[buffer(1)]], device const B* b [[buffer(2)]],
                   device const O* c [[buffer(3)]], device const O* scale [[buffer(4)]],
                   constant MatmulParams& p [[buffer(5)]], device float* partials [[buffer(6)]],
                   MPSX_GROUP_PARAMETERS) {
  typedef accumulator_t<O> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup S sum[kColumnTile], scratch[kColumnThreads * column_vector<B>];
  const uint base = g.group.x * kGemvColumns, row = g.group.y;
  const uint batch = g.group.z / p.split_k, split = g.group.z % p.split_k;
  const uint first = split * p.k_per_split, last = min(p.K, first + p.k_per_split);
  const uint count = min(uint(kGemvColumns), p.N - base);
  const ScaledRows<S, A, B> lines = {a + (long(batch) * p.a.batch + long(row) * p.a.row),
                                     b + (long(batch) * p.b.batch + long(base)), p.a.column, p.b.row};
  const bool aligned = p.vectorize_b && count % column_vector<B> == 0;
  column_reduce<CombineSum, column_vector<B>, 1>(sum, scratch, lines, first, last, count, aligned, g);
  if (p.split_k > 1) {
    const ulong offset = (ulong(g.group.z) * p.M + row) * p.N + base;
    for (uint i = g.index; i < count; i += g.count) partials[offset + i] = float(sum[i]);
    return;
  }
  const MatmulEpilogue<O> epilogue = matmul_epilogue(out, c, scale, p, batch);
  for (uint i = g.index; i < count; i += g.count) epilogue.store(row, base + i, sum[i]);
}

#define MPSX_GEMV(TAGS, A, B, O)           \
  MPSX_KERNEL("gemv_" TAGS, gemv<A, B, O>) \
  MPSX_KERNEL("gemv_t_" TAGS, gemv_t<A, B, O>)
#define MPSX_GEMV_OF_TYPE(T, TAG, ...) MPSX_GEMV(#TAG, T, T, T)
#define MPSX_MATMUL(T, TAG, ...)                                       \
  MPSX_KERNEL("matmul_" #TAG, matmul<T, T, T, Tile64<T>>)              \
  MPSX_KERNEL("matmul_split_k_reduce_" #TAG, matmul_split_k_reduce<T>) \
  MPSX_GEMV(#TAG, T, T, T)                                             \
  MPSX_KERNEL("matmul_int8_" #TAG, matmul<T, char, T, Tile64<T>>)      \
  MPSX_KERNEL("gemv_int8_" #TAG, gemv<T, char, T>)
MPSX_FOR_FLOAT(MPSX_MATMUL)
MPSX_KERNEL("matmul_128_f16", matmul<half, half, half, Tile128<half>>)
MPSX_KERNEL("matmul_128_bf16", matmul<bfloat, bfloat, bfloat, Tile128<bfloat>>)
MPSX_FOR_INT(MPSX_GEMV_OF_TYPE)
MPSX_GEMV("i8_i32", char, char, int)
