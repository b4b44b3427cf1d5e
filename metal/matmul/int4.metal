// Matrix multiplication with 4-bit weights: a tiled GEMM, and dequantization for the tensor tier's GEMM.
#include "lib/gemm.h"
#include "lib/instantiate.h"
#include "lib/vec.h"
#include "matmul/params.h"

enum : uint { kHalfBlock = kInt4Block / 2 };

// Loads the weights as operand B (K x N) and dequantizes them to float.
template <typename T>
struct Int4Loader {
  typedef uint Cursor;
  device const uchar* data;
  device const T* scales;  // shape (K / group, N, 2)
  uint N, K, group;
  bool k_contiguous;

  float2 scale_of(uint block, uint column) const {
    device const T* s = scales + 2 * (ulong(block * kInt4Block / group) * N + column);
    return float2(float(s[0]), float(s[1]));
  }
  Cursor at(uint column) const { return column; }
  // Loads four weights, which are the low or the high halves of four bytes.
  uint4 load(Cursor cursor, uint k) const {
    const uint column = min(cursor, N - 1), block = min(k, K - 1) / kInt4Block, i0 = k % kInt4Block;
    device const uchar* bytes = data + (ulong(column) * (K / 2) + block * kHalfBlock + i0 % kHalfBlock);
    const float2 s = scale_of(block, column);
    uint4 r;
#pragma unroll
    for (uint i = 0; i < 4; ++i) {
      const float q = float(i0 < kHalfBlock ? bytes[i] & 15 : bytes[i] >> 4);
      r[i] = as_type<uint>(k < K ? (q - 8.0f) * s.x + s.y : 0.0f);
    }
    return r;
  }
};

template <typename T>
struct Int4Epilogue {
  device T* out;
  uint N;
  void store(uint row, uint column, float acc) const { out[ulong(row) * N + column] = T(acc); }
};

template <typename T>
[[max_total_threads_per_threadgroup(kTile64Threads)]]
kernel void matmul_int4(device T* out [[buffer(0)]], device const T* a [[buffer(1)]],
                        device const uchar* weight [[buffer(2)]], device const T* scales [[buffer(3)]],
                        constant Int4Params& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  typedef Tile64<float> Shape;
  threadgroup uint4 memory[Shape::memory];
  const TileOffset tile = {g.group.y * Shape::BM, g.group.x * Shape::BN};
  const auto a_loader = matrix_loader<float>(a, p.a_row, p.a_column, p.M, p.K, p.vectorize_a);
  const Int4Loader<T> b_loader = {weight, scales, p.N, p.K, p.group, true};
  const Int4Epilogue<T> epilogue = {out, p.N};
  gemm_tile<Shape>(a_loader, b_loader, 0, p.K, epilogue, p.M, p.N, tile, memory, g);
}

// Dequantizes whole blocks of `rows` rows. gid = (16-byte vector of four weights, row)
template <typename T>
kernel void dequantize_int4(device T* out [[buffer(0)]], device const uchar* weight [[buffer(1)]],
                            device const T* scales [[buffer(2)]], constant Int4Params& p [[buffer(3)]],
                            constant uint& first_row [[buffer(4)]], uint2 gid [[thread_position_in_grid]]) {
  const Int4Loader<T> weights = {weight, scales, p.N, p.K, p.group, true};
  const uint k = gid.x * 4;
  const uint4 words = weights.load(weights.at(first_row + gid.y), k);
  Vec<T, 4> values;
  MPSX_UNROLL
  for (uint i = 0; i < 4; ++i) values.v[i] = T(as_type<float>(words[i]));
  store_vec(out + (ulong(gid.y) * p.K + k), values);
}

#define MPSX_INT4(T, TAG, ...)                     \
  MPSX_KERNEL("matmul_int4_" #TAG, matmul_int4<T>) \
  MPSX_KERNEL("dequantize_int4_" #TAG, dequantize_int4<T>)
MPSX_FOR_FLOAT(MPSX_INT4)
