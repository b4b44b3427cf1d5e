// Products with weights of four bits: by tiles, and for a few rows by rows.
#include "lib/instantiate.h"
#include "lib/pack.h"
#include "lib/team.h"
#include "lib/tile_product.h"
#include "matmul/params.h"

enum : uint { kHalfBlock = kInt4Block / 2 };

// The weights as the right factor of a product, depth x columns, in floats.
template <typename T>
struct Int4Source {
  typedef uint Line;
  device const uchar* data;
  device const T* scales;  // (depth / group, columns, 2)
  uint columns, depth, group;
  bool along_depth;

  float2 scale_of(uint block, uint column) const {
    device const T* s = scales + 2 * (ulong(block * kInt4Block / group) * columns + column);
    return float2(float(s[0]), float(s[1]));
  }
  Line at(uint line) const { return line; }
  // Four weights, whose bytes hold four others' too.
  uint4 run(Line line, uint k) const {
    const uint column = min(line, columns - 1), block = min(k, depth - 1) / kInt4Block, place = k % kInt4Block;
    device const uchar* both = data + (ulong(column) * (depth / 2) + block * kHalfBlock + place % kHalfBlock);
    const float2 s = scale_of(block, column);
    uint4 r;
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      const float q = float(place < kHalfBlock ? both[i] & 15 : both[i] >> 4);
      r[i] = as_type<uint>(k < depth ? (q - 8.0f) * s.x + s.y : 0.0f);
    }
    return r;
  }
};

template <typename T>
struct Int4Finish {
  device T* out;
  uint columns;
  void put(uint row, uint column, float sum) const { out[ulong(row) * columns + column] = T(sum); }
};

template <typename T>
[[max_total_threads_per_threadgroup(kTileThreads)]]
kernel void matmul_int4(device T* out [[buffer(0)]], device const T* a [[buffer(1)]],
                        device const uchar* weight [[buffer(2)]], device const T* scales [[buffer(3)]],
                        constant Int4Params& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  typedef SmallTile<float> Shape;
  threadgroup uint4 memory[Shape::memory];
  const Tile tile = {g.group.y * Shape::rows, g.group.x * Shape::columns};
  const auto left = matrix_source<float>(a, p.a_row, p.a_column, p.rows, p.depth, p.wide_a);
  const Int4Source<T> right = {weight, scales, p.columns, p.depth, p.group, true};
  const Int4Finish<T> finish = {out, p.columns};
  tile_product<Shape>(left, right, 0, p.depth, finish, p.rows, p.columns, tile, memory, g);
}

// This thread's share of a sum of products with a line of weights: of blocks, whose bytes it reads at once.
template <typename T>
inline float int4_product(device const T* x, device const uchar* line, Int4Source<T> weights, uint column, Team team) {
  float sum = 0.0f;
  for (uint block = team.index; block < weights.depth / kInt4Block; block += team.count) {
    const float2 s = weights.scale_of(block, column);
    const Pack<uchar, kHalfBlock> both = load_pack<kHalfBlock>(line + block * kHalfBlock);
    const Pack<T, kInt4Block> other = load_pack<kInt4Block>(x + block * kInt4Block);
    float products = 0.0f, others = 0.0f;
#pragma unroll
    for (uint i = 0; i < kHalfBlock; ++i) {
      const float first = float(other.v[i]), second = float(other.v[i + kHalfBlock]);
      products += first * (float(both.v[i] & 15) - 8.0f) + second * (float(both.v[i] >> 4) - 8.0f);
      others += first + second;
    }
    sum += s.x * products + s.y * others;
  }
  return sum;
}

// A team of threads an element of the result; rows of `a` lie along memory, and as weights at multiples of 16 bytes.
template <typename T>
kernel void matmul_int4_rows(device T* out [[buffer(0)]], device const T* a [[buffer(1)]],
                             device const uchar* weight [[buffer(2)]], device const T* scales [[buffer(3)]],
                             constant Int4Params& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const Team team = team_of(p.columns, p.team, g);
  if (team.row >= p.columns) return;
  const Int4Source<T> weights = {weight, scales, p.columns, p.depth, p.group, true};
  const float own = int4_product(a + long(g.group.y) * p.a_row, weight + ulong(team.row) * (p.depth / 2), weights,
                                 team.row, team);
  const float sum = team_reduce<CombineSum>(own, scratch, team, g);
  if (team.index == 0) out[ulong(g.group.y) * p.columns + team.row] = T(sum);
}

#define MPSX_INT4(T, TAG, ...)                       \
  MPSX_KERNEL("matmul_int4_" #TAG, matmul_int4<T>)   \
  MPSX_KERNEL("matmul_int4_rows_" #TAG, matmul_int4_rows<T>)
MPSX_FOR_FLOAT(MPSX_INT4)
