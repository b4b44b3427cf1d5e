// Products of matrices: by tiles, and where one of them is a vector, or integer, by rows and by columns.
#include "lib/columns.h"
#include "lib/instantiate.h"
#include "lib/team.h"
#include "matmul/finish.h"

// The result, or the sums of a part of the depth, for matmul_join.
template <typename O>
struct TileFinish {
  MatmulFinish<O> whole;
  device float* parts;
  uint columns;
  bool split;
  METAL_FUNC void put(uint row, uint column, float sum) const {
    if (split)
      parts[ulong(row) * columns + column] = sum;
    else
      whole.put(row, column, sum);
  }
};

template <typename A, typename B, typename O, typename Shape>
[[max_total_threads_per_threadgroup(Shape::limit)]]
kernel void matmul(device O* out [[buffer(0)]], device const A* a [[buffer(1)]], device const B* b [[buffer(2)]],
                   device const O* c [[buffer(3)]], device const O* scale [[buffer(4)]],
                   constant MatmulParams& p [[buffer(5)]], device float* parts [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup uint4 memory[Shape::memory];
  const uint batch = g.group.z / p.splits, part = g.group.z % p.splits;
  const uint first = part * p.split_depth, depth = min(p.depth, first + p.split_depth);
  const Tile tile = {g.group.y * Shape::rows, g.group.x * Shape::columns};
  const auto left = matrix_source<A>(a + long(batch) * p.a.batch, p.a.row, p.a.column, p.rows, depth, p.wide_a);
  const auto right = matrix_source<A>(b + long(batch) * p.b.batch, p.b.column, p.b.row, p.columns, depth, p.wide_b);
  const TileFinish<O> finish = {matmul_finish(out, c, scale, p, batch),
                                parts + (p.splits > 1 ? ulong(g.group.z) * p.rows * p.columns : 0), p.columns,
                                p.splits > 1};
  tile_product<Shape>(left, right, first, depth, finish, p.rows, p.columns, tile, memory, g);
}

// The result of a product whose depth was split. gid = (column, row, batch)
template <typename O>
kernel void matmul_join(device O* out [[buffer(0)]], device const O* c [[buffer(1)]],
                        device const O* scale [[buffer(2)]], constant MatmulParams& p [[buffer(3)]],
                        device const float* parts [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  const ulong size = ulong(p.rows) * p.columns;
  device const float* part = parts + (ulong(gid.z) * p.splits * size + ulong(gid.y) * p.columns + gid.x);
  float sum = 0.0f;
  for (uint i = 0; i < p.splits; ++i) sum += part[i * size];
  matmul_finish(out, c, scale, p, gid.z).put(gid.y, gid.x, sum);
}

enum : uint { kRowSum = 8192 };  // products that are added up before they are added to the others

// This thread's share of a sum of products of neighbours. `wide`: both begin at a multiple of 16 bytes.
template <typename S, typename A, typename B>
inline S product_along(device const A* x, device const B* y, uint count, bool wide, Team team) {
  enum : uint { kPack = 16 / sizeof(B) };
  const uint packs = wide ? count / kPack : 0;
  S sum = S(0);
  for (uint first = team.index; first < packs; first += kAhead * team.count) {
    Pack<B, kPack> raw[kAhead];
    S part = S(0);
#pragma unroll
    for (uint k = 0; k < kAhead; ++k)
      if (first + k * team.count < packs) raw[k] = load_pack<kPack>(y + (first + k * team.count) * kPack);
#pragma unroll
    for (uint k = 0; k < kAhead; ++k) {
      if (first + k * team.count >= packs) continue;
      const Pack<A, kPack> other = load_pack<kPack>(x + (first + k * team.count) * kPack);  // of the cache
#pragma unroll
      for (uint j = 0; j < kPack; ++j) part += S(other.v[j]) * S(raw[k].v[j]);
    }
    sum += part;
  }
  for (uint k = packs * kPack + team.index; k < count; k += team.count) sum += S(x[k]) * S(y[k]);
  return sum;
}

// A team of threads an element of the result: for vectors, where columns of b lie along memory.
template <typename A, typename B, typename O>
kernel void matmul_rows(device O* out [[buffer(0)]], device const A* a [[buffer(1)]], device const B* b [[buffer(2)]],
                        device const O* c [[buffer(3)]], device const O* scale [[buffer(4)]],
                        constant MatmulParams& p [[buffer(5)]], MPSX_GROUP_PARAMETERS) {
  typedef product_sum_t<O> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup S scratch[kScratch];
  const Team team = team_of(p.columns, p.team, g);
  if (team.row >= p.columns) return;
  const uint column = team.row, row = g.group.y, batch = g.group.z;
  device const A* x = a + (long(batch) * p.a.batch + long(row) * p.a.row);
  device const B* y = b + (long(batch) * p.b.batch + long(column) * p.b.column);
  const long across = p.a.column, down = p.b.row;
  S sum = S(0);
  for (uint first = 0; first < p.depth; first += kRowSum) {
    const uint last = min(first + kRowSum, p.depth);
    S part = S(0);
    if (across == 1 && down == 1) {
      part = product_along<S>(x + first, y + first, last - first, p.wide_a && p.wide_b, team);
    } else {
      for (uint k = first + team.index; k < last; k += team.count)
        part += S(x[long(k) * across]) * S(y[long(k) * down]);
    }
    sum += part;
  }
  sum = team_reduce<CombineSum>(sum, scratch, team, g);
  if (team.index == 0) matmul_finish(out, c, scale, p, batch).put(row, column, sum);
}

// Lines of b, each times an element of a.
template <typename S, typename B>
struct ScaledLine {
  template <uint N> using Raw = Pack<B, N>;
  device const B* x;
  S factor;
  template <uint N> Pack<B, N> fetch(uint c) const { return load_pack<N>(x + c); }
  template <uint N> S value(Pack<B, N> raw, uint j, uint) const { return factor * S(raw.v[j]); }
  S one(uint c, uint) const { return factor * S(x[c]); }
};
template <typename S, typename A, typename B>
struct ScaledLines {
  typedef ScaledLine<S, B> Line;
  device const A* a;
  device const B* b;
  long a_step, b_step;
  Line line(ulong k) const { return {b + long(k) * b_step, S(a[long(k) * a_step])}; }
};

// A threadgroup owns some columns of one row of the result, or of a part of the depth: rows of b lie along memory.
template <typename A, typename B, typename O>
kernel void matmul_columns(device O* out [[buffer(0)]], device const A* a [[buffer(1)]],
                           device const B* b [[buffer(2)]], device const O* c [[buffer(3)]],
                           device const O* scale [[buffer(4)]], constant MatmulParams& p [[buffer(5)]],
                           device float* parts [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  typedef product_sum_t<O> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup S sum[kFoldColumns], scratch[kFoldThreads * column_pack<B>];
  const uint base = g.group.x * kMatmulColumns, row = g.group.y;
  const uint batch = g.group.z / p.splits, part = g.group.z % p.splits;
  const uint first = part * p.split_depth, last = min(p.depth, first + p.split_depth);
  const uint count = min(uint(kMatmulColumns), p.columns - base);
  const ScaledLines<S, A, B> lines = {a + (long(batch) * p.a.batch + long(row) * p.a.row),
                                      b + (long(batch) * p.b.batch + long(base)), p.a.column, p.b.row};
  if (p.wide_b && count % column_pack<B> == 0)
    fold_columns<CombineSum, column_pack<B>, 1>(sum, scratch, lines, first, last, count, g);
  else
    fold_columns<CombineSum, 1, 1>(sum, scratch, lines, first, last, count, g);
  if (p.splits > 1) {
    const ulong at = (ulong(g.group.z) * p.rows + row) * p.columns + base;
    for (uint i = g.index; i < count; i += g.count) parts[at + i] = float(sum[i]);
    return;
  }
  const MatmulFinish<O> finish = matmul_finish(out, c, scale, p, batch);
  for (uint i = g.index; i < count; i += g.count) finish.put(row, base + i, sum[i]);
}

#define MPSX_VECTOR_MATMUL(TAGS, A, B, O)                        \
  MPSX_KERNEL("matmul_rows_" TAGS, matmul_rows<A, B, O>)         \
  MPSX_KERNEL("matmul_columns_" TAGS, matmul_columns<A, B, O>)
#define MPSX_WHOLE_MATMUL(T, TAG, ...) MPSX_VECTOR_MATMUL(#TAG, T, T, T)
#define MPSX_MATMUL(T, TAG, ...)                                               \
  MPSX_KERNEL("matmul_" #TAG, matmul<T, T, T, SmallTile<T>>)                   \
  MPSX_KERNEL("matmul_join_" #TAG, matmul_join<T>)                             \
  MPSX_VECTOR_MATMUL(#TAG, T, T, T)                                            \
  MPSX_KERNEL("matmul_int8_" #TAG, matmul<T, char, T, SmallTile<T>>)           \
  MPSX_KERNEL("matmul_int8_rows_" #TAG, matmul_rows<T, char, T>)
MPSX_FOR_FLOAT(MPSX_MATMUL)
MPSX_KERNEL("matmul_large_f16", matmul<half, half, half, LargeTile<half>>)
MPSX_KERNEL("matmul_large_bf16", matmul<bfloat, bfloat, bfloat, LargeTile<bfloat>>)
MPSX_FOR_INT(MPSX_WHOLE_MATMUL)
MPSX_VECTOR_MATMUL("i8_i32", char, char, int)
