// FlashAttention, forward and backward, with a matmul2d that a whole threadgroup computes. Used for 16-bit elements on
// GPUs where matmul2d is fastest with large tiles.
#include "attention/attention_kernels.h"
#include "attention/attention_tiles.h"
#include "lib/instantiate.h"

// The numbers of columns and of resident threads that were fastest on an H100, for 2048 queries and keys.
enum : uint {
  kTileRows = kAttentionTileSimdgroups * kAttentionTileRows,
  kTileThreads = kAttentionThreads / 4 * kAttentionTileSimdgroups,
};
template <typename T>
using Tiles64 = AttentionTiles<T, 64, kTileRows, 64, 2 * kTileThreads>;
template <typename T>
using Tiles128 = AttentionTiles<T, 128, kTileRows, 64, kTileThreads>;
template <typename T>
using QueryGradTiles64 = AttentionTiles<T, 64, kTileRows, 32, 2 * kTileThreads>;
template <typename T>
using KeyGradTiles64 = AttentionTiles<T, 64, kTileRows, 64, kTileThreads>;
template <typename T>
using GradTiles128 = AttentionTiles<T, 128, kTileRows, 32, kTileThreads>;

#define MPSX_ATTENTION_TILES(T, TAG)                                                                                   \
  MPSX_KERNEL("attention_tensor_tiles_64_" #TAG, attention_tiles<T, Tiles64<T>>)                                       \
  MPSX_KERNEL("attention_tensor_tiles_128_" #TAG, attention_tiles<T, Tiles128<T>>)                                     \
  MPSX_KERNEL("attention_tensor_tiles_backward_dq_64_" #TAG, attention_tiles_backward<T, QueryGradTiles64<T>, kGradQ>) \
  MPSX_KERNEL("attention_tensor_tiles_backward_dkv_64_" #TAG,                                                          \
              attention_tiles_backward<T, KeyGradTiles64<T>, uint(kGradK) | uint(kGradV)>)                             \
  MPSX_KERNEL("attention_tensor_tiles_backward_dq_128_" #TAG, attention_tiles_backward<T, GradTiles128<T>, kGradQ>)    \
  MPSX_KERNEL("attention_tensor_tiles_backward_dk_128_" #TAG, attention_tiles_backward<T, GradTiles128<T>, kGradK>)    \
  MPSX_KERNEL("attention_tensor_tiles_backward_dv_128_" #TAG, attention_tiles_backward<T, GradTiles128<T>, kGradV>)
MPSX_ATTENTION_TILES(half, f16)
MPSX_ATTENTION_TILES(bfloat, bf16)
