// The tensor tier of matmul.metal: matrix multiplication with Metal 4's matmul2d.
#include "lib/instantiate.h"
#include "lib/multiply_cluster.h"
#include "lib/multiply_tiles.h"
#include "lib/store_rows.h"
#include "matmul/epilogue.h"

struct ScaleTile {
  float alpha;
  float apply(uint, uint, float x) const { return alpha * x; }
};
// Adds beta * c. Elements past the end of the matrix add c's last row or column, which is cheaper than a bounds check
// and has no effect, because they are never stored. BROADCAST_ROW: all rows of c are the same.
template <typename O, bool BROADCAST_ROW>
struct AddMatrix {
  device const O* c;
  long row_stride;
  uint column_stride, last_row, last_column;
  float beta;
  float apply(uint row, uint column, float x) const {
    device const O* const from = BROADCAST_ROW ? c : c + long(min(row, last_row)) * row_stride;
    return x + beta * float(from[min(column, last_column) * column_stride]);
  }
};
template <uint ACTIVATION>
struct ActivateTile {
  float apply(uint, uint, float x) const { return apply_activation(x, ACTIVATION); }
};

// The rows of the output from an element on, for MPSX_STORE_ROWS.
template <typename O>
struct MatrixRows {
  device O* out;
  int row_count, column_count;
  long row_stride, column_stride;
  METAL_FUNC device O* row(int r) const { return r < row_count ? out + r * row_stride : nullptr; }
  METAL_FUNC int columns() const { return column_count; }
  METAL_FUNC long stride() const { return column_stride; }
  METAL_FUNC bool aligned() const { return (ulong(out) | ulong(row_stride) * sizeof(O)) % 16 == 0; }
};

// Stores a tile of the output, or its partial sums for matmul_split_k_reduce if K is split. ROW: if c is added, its
// rows are equal. In kernels that compute several 128x256 tiles, the code for any c would make ptxas spill 820 bytes.
template <typename O, bool ACTIVATE, bool ROW>
struct TensorEpilogue {
  device O* out;
  device const O* c;
  device float* partials;
  constant MatmulParams& p;

  template <typename Sum>
  METAL_FUNC void store(thread Sum& sum, TileOffset tile) const {
    typedef dextents<int, 2> Extents;
    const Extents size = Extents(int(p.N), int(p.M));
    const int row = int(tile.m), column = int(tile.n);
    if (p.split_k > 1) {
      sum.store(tensor(partials, size, array<int, 2>{1, int(p.N)}).slice(column, row));
      return;
    }
    if (p.alpha != 1.0f) transform_tile(sum, tile, ScaleTile{p.alpha});
    if (p.has_c && p.c.row == 0)
      transform_tile(sum, tile, AddMatrix<O, true>{c, 0, uint(p.c.column), p.M - 1, p.N - 1, p.beta});
    else if (!ROW && p.has_c)
      transform_tile(sum, tile, AddMatrix<O, false>{c, p.c.row, uint(p.c.column), p.M - 1, p.N - 1, p.beta});
    if (ACTIVATE) {
      if (p.activation == kActivationRelu) transform_tile(sum, tile, ActivateTile<kActivationRelu>());
      if (p.activation == kActivationGelu) transform_tile(sum, tile, ActivateTile<kActivationGelu>());
      if (p.activation == kActivationGeluTanh) transform_tile(sum, tile, ActivateTile<kActivationGeluTanh>());
      if (p.activation == kActivationSilu) transform_tile(sum, tile, ActivateTile<kActivationSilu>());
    }
    // `out` may be c. The thread that stores an element may be a different one than the thread that has read it.
    if (p.has_c) tg_device_barrier();
    const long offset = long(row) * p.out.row + long(column) * p.out.column;
    MPSX_STORE_ROWS<O>(sum, MatrixRows<O>{out + offset, int(p.M) - row, int(p.N) - column, p.out.row, p.out.column});
  }
};

// Grid: (tiles, 1, batch * splits of K). ALIGNED: no operand is empty, and addresses, pitches, and strides of batches
// are multiples of 16 bytes.
template <typename T, typename Tile, bool TRANSPOSE_A, bool TRANSPOSE_B, bool RELAXED, bool ACTIVATE, bool ALIGNED>
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void matmul_tensor(device T* out [[buffer(0)]], device T* a [[buffer(1)]], device T* b [[buffer(2)]],
                          device const T* c [[buffer(3)]], constant MatmulParams& p [[buffer(4)]],
                          device float* partials [[buffer(5)]], uint3 group [[threadgroup_position_in_grid]]) {
  const uint batch = group.z / p.split_k, split = group.z % p.split_k;
  const uint k_begin = split * p.k_per_split, k_end = min(p.K, k_begin + p.k_per_split);
  const TensorOperand<T> left = {a + long(batch) * p.a.batch, TRANSPOSE_A ? p.a.column : p.a.row};
  const TensorOperand<T> right = {b + long(batch) * p.b.batch, TRANSPOSE_B ? p.b.column : p.b.row};
  const TensorEpilogue<T, ACTIVATE, false> epilogue = {out + long(batch) * p.out.batch,
                                                       p.has_c ? c + long(batch) * p.c.batch : c,
                                                       partials + (p.split_k > 1 ? ulong(group.z) * p.M * p.N : 0), p};
  tensor_gemm_tile<Tile, TRANSPOSE_A, TRANSPOSE_B, RELAXED, ALIGNED>(left, right, p.M, p.N, k_begin, k_end,
                                                                     raster_tile<Tile>(group.x, p.M, p.N), epilogue);
}

// Stores the tiles of a batch.
template <typename O>
struct BatchEpilogue {
  device O* out;
  device const O* c;
  constant MatmulParams& p;
  template <typename Sum>
  METAL_FUNC void store(thread Sum& sum, GemmTile tile) const {
    const TensorEpilogue<O, false, true> matrix = {out + long(tile.batch) * p.out.batch,
                                                   p.has_c ? c + long(tile.batch) * p.c.batch : c, nullptr, p};
    matrix.store(sum, TileOffset{tile.m, tile.n});
  }
};

// As matmul_tensor, but each threadgroup computes every grid.x-th tile. The operands are aligned to 16 bytes, K is not
// split, and if c is added, its rows are equal.
template <typename T, typename Tile, bool TRANSPOSE_A, bool TRANSPOSE_B>
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void matmul_tensor_several(device T* out [[buffer(0)]], device T* a [[buffer(1)]], device T* b [[buffer(2)]],
                                  device const T* c [[buffer(3)]], constant MatmulParams& p [[buffer(4)]],
                                  uint3 group [[threadgroup_position_in_grid]],
                                  uint3 groups [[threadgroups_per_grid]]) {
  const TensorGemm<Tile, TRANSPOSE_A, TRANSPOSE_B, T> gemm = {{a, TRANSPOSE_A ? p.a.column : p.a.row},
                                                              {b, TRANSPOSE_B ? p.b.column : p.b.row},
                                                              p.a.batch,
                                                              p.b.batch,
                                                              p.M,
                                                              p.N,
                                                              p.K};
  const BatchEpilogue<T> epilogue = {out, c, p};
  MPSX_MULTIPLY_TILES(gemm, (GemmTiles{group.x, groups.x, p.tiles}), epilogue);
}

// As matmul_tensor, but the threadgroups of each block of ROWS x COLUMNS tiles load their operands together. The
// operands are aligned to 16 bytes. Grid: (blocks * ROWS * COLUMNS, 1, batch * splits of K).
template <typename T, typename Tile, uint ROWS, uint COLUMNS, bool TRANSPOSE_A, bool TRANSPOSE_B>
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void matmul_tensor_cluster(device T* out [[buffer(0)]], device T* a [[buffer(1)]], device T* b [[buffer(2)]],
                                  device const T* c [[buffer(3)]], constant MatmulParams& p [[buffer(4)]],
                                  device float* partials [[buffer(5)]], uint3 group [[threadgroup_position_in_grid]]) {
  const uint batch = group.z / p.split_k, split = group.z % p.split_k;
  const uint k_begin = split * p.k_per_split, k_end = min(p.K, k_begin + p.k_per_split);
  const ClusterGemm<Tile, TRANSPOSE_A, TRANSPOSE_B, T> gemm = {
      {a + long(batch) * p.a.batch, TRANSPOSE_A ? p.a.column : p.a.row},
      {b + long(batch) * p.b.batch, TRANSPOSE_B ? p.b.column : p.b.row},
      p.M,
      p.N,
      k_begin,
      k_end};
  const TensorEpilogue<T, false, false> epilogue = {out + long(batch) * p.out.batch,
                                                    p.has_c ? c + long(batch) * p.c.batch : c,
                                                    partials + (p.split_k > 1 ? ulong(group.z) * p.M * p.N : 0), p};
  MPSX_MULTIPLY_CLUSTER(gemm, (cluster_position<Tile, ROWS, COLUMNS>(group.x, p.M, p.N)), epilogue);
}

// Tiles for GPUs that stage operands in dynamic threadgroup memory (NVIDIA).
typedef TensorTile<128, 256, 8, false> Tile128x256;
typedef TensorTile<256, 192, 16, false> Tile256x192;
typedef TensorTile<192, 256, 12, false> Tile192x256;
typedef TensorTile<128, 192, 8, false> Tile128x192;
typedef TensorTile<192, 96, 12, false> Tile192x96;
typedef TensorTile<64, 96, 4, false> Tile64x96;
typedef TensorTile<128, 128, 8, false> Tile128x128;
typedef TensorTile<128, 64, 8, false> Tile128x64;
// Tiles for Apple GPUs (metalBLAS, measured on an M5 Pro).
typedef TensorTile<64, 128, 4, true> Tile64x128;
typedef TensorTile<64, 64, 2, true> Tile64x64;

// VARIANT: empty, aligned_, relaxed_ (float32 operands with TF32 precision), or act_ (with an activation).
#define MPSX_TENSOR(VARIANT, TILE, T, TAG, ...)                                                                    \
  MPSX_KERNEL("matmul_tensor_" VARIANT #TILE "_nn_" #TAG, matmul_tensor<T, Tile##TILE, false, false, __VA_ARGS__>) \
  MPSX_KERNEL("matmul_tensor_" VARIANT #TILE "_nt_" #TAG, matmul_tensor<T, Tile##TILE, false, true, __VA_ARGS__>)
#define MPSX_TENSOR_ALL(VARIANT, TILE, T, TAG, ...)                                                               \
  MPSX_TENSOR(VARIANT, TILE, T, TAG, __VA_ARGS__)                                                                 \
  MPSX_KERNEL("matmul_tensor_" VARIANT #TILE "_tn_" #TAG, matmul_tensor<T, Tile##TILE, true, false, __VA_ARGS__>) \
  MPSX_KERNEL("matmul_tensor_" VARIANT #TILE "_tt_" #TAG, matmul_tensor<T, Tile##TILE, true, true, __VA_ARGS__>)
#define MPSX_TENSOR_16_BIT(VARIANT, TILE, ALIGNED)                 \
  MPSX_TENSOR_ALL(VARIANT, TILE, half, f16, false, false, ALIGNED) \
  MPSX_TENSOR_ALL(VARIANT, TILE, bfloat, bf16, false, false, ALIGNED)
#define MPSX_TENSOR_F32(VARIANT, TILE, ALIGNED) MPSX_TENSOR_ALL(VARIANT, TILE, float, f32, false, false, ALIGNED)
#define MPSX_TENSOR_MORE(TILE, ALIGNED)                               \
  MPSX_TENSOR_ALL("relaxed_", TILE, float, f32, true, false, ALIGNED) \
  MPSX_TENSOR("act_", TILE, half, f16, false, true, ALIGNED)          \
  MPSX_TENSOR("act_", TILE, bfloat, bf16, false, true, ALIGNED)       \
  MPSX_TENSOR("act_", TILE, float, f32, false, true, ALIGNED)
#define MPSX_TENSOR_SEVERAL(TILE, T, TAG)                                                                     \
  MPSX_KERNEL("matmul_tensor_several_" #TILE "_nn_" #TAG, matmul_tensor_several<T, Tile##TILE, false, false>) \
  MPSX_KERNEL("matmul_tensor_several_" #TILE "_nt_" #TAG, matmul_tensor_several<T, Tile##TILE, false, true>)  \
  MPSX_KERNEL("matmul_tensor_several_" #TILE "_tn_" #TAG, matmul_tensor_several<T, Tile##TILE, true, false>)  \
  MPSX_KERNEL("matmul_tensor_several_" #TILE "_tt_" #TAG, matmul_tensor_several<T, Tile##TILE, true, true>)
#define MPSX_TENSOR_CLUSTER(TILE, T, TAG, ...)                                 \
  MPSX_KERNEL("matmul_tensor_cluster_" #TILE "_nn_" #TAG,                      \
              matmul_tensor_cluster<T, Tile##TILE, __VA_ARGS__, false, false>) \
  MPSX_KERNEL("matmul_tensor_cluster_" #TILE "_nt_" #TAG,                      \
              matmul_tensor_cluster<T, Tile##TILE, __VA_ARGS__, false, true>)  \
  MPSX_KERNEL("matmul_tensor_cluster_" #TILE "_tn_" #TAG,                      \
              matmul_tensor_cluster<T, Tile##TILE, __VA_ARGS__, true, false>)  \
  MPSX_KERNEL("matmul_tensor_cluster_" #TILE "_tt_" #TAG, matmul_tensor_cluster<T, Tile##TILE, __VA_ARGS__, true, true>)
#define MPSX_TENSOR_CLUSTER_16_BIT(TILE, ROWS, COLUMNS) \
  MPSX_TENSOR_CLUSTER(TILE, half, f16, ROWS, COLUMNS)   \
  MPSX_TENSOR_CLUSTER(TILE, bfloat, bf16, ROWS, COLUMNS)
// Kernels for any alignment.
MPSX_TENSOR_16_BIT("", 128x128, false)
MPSX_TENSOR_16_BIT("", 64x128, false)
MPSX_TENSOR_16_BIT("", 64x64, false)
MPSX_TENSOR_F32("", 128x128, false)
MPSX_TENSOR_F32("", 128x64, false)
MPSX_TENSOR_F32("", 64x64, false)
MPSX_TENSOR_MORE(64x64, false)
// Kernels for aligned operands. On NVIDIA GPUs, they have a tenth less code.
MPSX_TENSOR_16_BIT("aligned_", 128x256, true)
MPSX_TENSOR_16_BIT("aligned_", 256x192, true)
MPSX_TENSOR_16_BIT("aligned_", 192x256, true)
MPSX_TENSOR_16_BIT("aligned_", 128x192, true)
MPSX_TENSOR_16_BIT("aligned_", 128x128, true)
MPSX_TENSOR_16_BIT("aligned_", 64x128, true)
MPSX_TENSOR_F32("aligned_", 128x128, true)
MPSX_TENSOR_F32("aligned_", 128x64, true)
MPSX_TENSOR_MORE(128x128, true)
// With more SIMD groups, too few registers are left for the loop over tiles.
MPSX_TENSOR_SEVERAL(128x256, half, f16)
MPSX_TENSOR_SEVERAL(128x256, bfloat, bf16)
MPSX_TENSOR_SEVERAL(128x192, half, f16)
MPSX_TENSOR_SEVERAL(128x192, bfloat, bf16)
MPSX_TENSOR_SEVERAL(128x128, half, f16)
MPSX_TENSOR_SEVERAL(128x128, bfloat, bf16)
MPSX_TENSOR_CLUSTER_16_BIT(128x128, 2, 2)
MPSX_TENSOR_CLUSTER_16_BIT(64x128, 4, 2)
MPSX_TENSOR_CLUSTER_16_BIT(64x96, 2, 4)
MPSX_TENSOR_CLUSTER_16_BIT(192x96, 1, 2)
