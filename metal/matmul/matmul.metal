// Products of matrices: by tiles, and where one of them is a vector, or integer, by rows and by columns.
#include "lib/instantiate.h"
#include "matmul/finish.h"

template <typename A, typename B, typename O>
[[max_total_threads_per_threadgroup(kTileThreads)]]
kernel void matmul(device O* out [[buffer(0)]], device const A* a [[buffer(1)]], device const B* b [[buffer(2)]],
                   device const O* c [[buffer(3)]], device const O* scale [[buffer(4)]],
                   constant MatmulParams& p [[buffer(5)]], threadgroup float* memory [[threadgroup(0)]],
                   MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint batch = g.group.z;
  const Tile tile = tile_at(g.group.y, g.group.x);
  const MatrixSource<A> left = {a + long(batch) * p.a.batch, p.a.row, p.a.column, p.rows, p.depth};
  const MatrixSource<B> right = {b + long(batch) * p.b.batch, p.b.row, p.b.column, p.depth, p.columns};
  tile_product(left, right, p.depth, tile, memory, g);
  tile_finish(matmul_finish(out, c, scale, p, batch), p.rows, p.columns, tile, memory, g);
}

enum : uint { kRowSum = 8192, kColumnSum = 16 };  // products that are added up before they are added to the others

// This thread's share of a sum of products of neighbours in memory.
template <typename S, typename A, typename B>
inline S product_along(device const A* x, device const B* y, uint count, GroupThread g) {
  S sum = S(0);
  MPSX_REDUCE(+ : sum)
  for (uint k = g.index; k < count; k += g.count) sum += S(x[k]) * S(y[k]);
  return sum;
}

// A threadgroup an element of the result: for vectors, where columns of b lie along memory.
template <typename A, typename B, typename O>
kernel void matmul_rows(device O* out [[buffer(0)]], device const A* a [[buffer(1)]], device const B* b [[buffer(2)]],
                        device const O* c [[buffer(3)]], device const O* scale [[buffer(4)]],
                        constant MatmulParams& p [[buffer(5)]], MPSX_GROUP_PARAMETERS) {
  typedef product_sum_t<O> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup S scratch[kScratch];
  const uint column = g.group.x, row = g.group.y, batch = g.group.z;
  device const A* x = a + (long(batch) * p.a.batch + long(row) * p.a.row);
  device const B* y = b + (long(batch) * p.b.batch + long(column) * p.b.column);
  const long across = p.a.column, down = p.b.row;
  S sum = S(0);
  for (uint first = 0; first < p.depth; first += kRowSum) {
    const uint last = min(first + kRowSum, p.depth);
    S part = S(0);
    if (across == 1 && down == 1) {
      part = product_along<S>(x + first, y + first, last - first, g);
    } else {
      for (uint k = first + g.index; k < last; k += g.count) part += S(x[long(k) * across]) * S(y[long(k) * down]);
    }
    sum += part;
  }
  sum = tg_sum(sum, scratch, g);
  if (g.index == 0) matmul_finish(out, c, scale, p, batch).put(row, column, sum);
}

// A threadgroup owns some columns of one row of the result: rows of b lie along memory.
template <typename A, typename B, typename O>
kernel void matmul_columns(device O* out [[buffer(0)]], device const A* a [[buffer(1)]],
                           device const B* b [[buffer(2)]], device const O* c [[buffer(3)]],
                           device const O* scale [[buffer(4)]], constant MatmulParams& p [[buffer(5)]],
                           MPSX_GROUP_PARAMETERS) {
  typedef product_sum_t<O> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup S part[kMatmulColumns], sum[kMatmulColumns];
  const uint base = g.group.x * kMatmulColumns, row = g.group.y, batch = g.group.z;
  const uint count = min(uint(kMatmulColumns), p.columns - base);
  device const A* x = a + (long(batch) * p.a.batch + long(row) * p.a.row);
  device const B* y = b + (long(batch) * p.b.batch + long(base) * p.b.column);
  const long right = p.b.column;
  for (uint i = g.index; i < count; i += g.count) sum[i] = S(0);
  for (uint first = 0; first < p.depth; first += kColumnSum) {
    for (uint i = g.index; i < count; i += g.count) part[i] = S(0);
    for (uint k = first, last = min(first + kColumnSum, p.depth); k < last; ++k) {
      const S factor = S(x[long(k) * p.a.column]);
      device const B* line = y + long(k) * p.b.row;
      if (right == 1) {
        MPSX_VECTORIZE
        for (uint i = g.index; i < count; i += g.count) part[i] += factor * S(line[i]);
      } else {
        for (uint i = g.index; i < count; i += g.count) part[i] += factor * S(line[long(i) * right]);
      }
    }
    for (uint i = g.index; i < count; i += g.count) sum[i] += part[i];
  }
  const MatmulFinish<O> finish = matmul_finish(out, c, scale, p, batch);
  for (uint i = g.index; i < count; i += g.count) finish.put(row, base + i, sum[i]);
}

#define MPSX_VECTOR_MATMUL(TAGS, A, B, O)                        \
  MPSX_KERNEL("matmul_rows_" TAGS, matmul_rows<A, B, O>)         \
  MPSX_KERNEL("matmul_columns_" TAGS, matmul_columns<A, B, O>)
#define MPSX_WHOLE_MATMUL(T, TAG, ...) MPSX_VECTOR_MATMUL(#TAG, T, T, T)
#define MPSX_MATMUL(T, TAG, ...)                                          \
  MPSX_KERNEL("matmul_" #TAG, matmul<T, T, T>)                            \
  MPSX_VECTOR_MATMUL(#TAG, T, T, T)                                       \
  MPSX_KERNEL("matmul_int8_" #TAG, matmul<T, char, T>)                    \
  MPSX_KERNEL("matmul_int8_rows_" #TAG, matmul_rows<T, char, T>)
MPSX_FOR_FLOAT(MPSX_MATMUL)
MPSX_FOR_INT(MPSX_WHOLE_MATMUL)
MPSX_VECTOR_MATMUL("i8_i32", char, char, int)
