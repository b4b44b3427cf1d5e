// FlashAttention, forward and backward, using a matmul2d that a whole threadgroup computes. Used for 16-bit elements on
// GPUs where matmul2d is fastest with large tiles.
#include "attention/attention_kernels.h"
#include "attention/attention_tiles.h"
#include "lib/instantiate.h"

// Columns per tile and resident threads, tuned on an H100 for 2048 queries and keys.
template <typename T>
using Tiles64 = AttentionTiles<T, 64, kTileRowsO, 64, 512>;
template <typename T>
using Tiles128 = AttentionTiles<T, 128, kTileRowsO, 64, 256>;
template <typename T>
using TilesDQ64 = AttentionTiles<T, 64, kTileRowsDQ, 32, 512>;
template <typename T>
using TilesDKV64 = AttentionTiles<T, 64, kTileRowsDKV, 32, 384>;
template <typename T>
using TilesDQ128 = AttentionTiles<T, 128, kTileRowsDQ, 32, 256>;
template <typename T>
using TilesDK128 = AttentionTiles<T, 128, kTileRowsDK, 32, 256>;
template <typename T>
using TilesDV128 = AttentionTiles<T, 128, kTileRowsDV, 32, 384>;

#define MPSX_ATTENTION_TILES(T, TAG)                                                                              \
  MPSX_KERNEL("attention_tensor_tiles_64_" #TAG, attention_tiles<T, Tiles64<T>>)                                  \
  MPSX_KERNEL("attention_tensor_tiles_128_" #TAG, attention_tiles<T, Tiles128<T>>)                                \
  MPSX_KERNEL("attention_tensor_tiles_backward_dq_64_" #TAG, attention_tiles_backward<T, TilesDQ64<T>, kGradQ>)   \
  MPSX_KERNEL("attention_tensor_tiles_backward_dkv_64_" #TAG,                                                     \
              attention_tiles_backward<T, TilesDKV64<T>, uint(kGradK) | uint(kGradV)>)                            \
  MPSX_KERNEL("attention_tensor_tiles_backward_dq_128_" #TAG, attention_tiles_backward<T, TilesDQ128<T>, kGradQ>) \
  MPSX_KERNEL("attention_tensor_tiles_backward_dk_128_" #TAG, attention_tiles_backward<T, TilesDK128<T>, kGradK>) \
  MPSX_KERNEL("attention_tensor_tiles_backward_dv_128_" #TAG, attention_tiles_backward<T, TilesDV128<T>, kGradV>)
MPSX_ATTENTION_TILES(half, f16)
MPSX_ATTENTION_TILES(bfloat, bf16)
