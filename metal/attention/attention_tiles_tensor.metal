// FlashAttention, forward and backward, using a matmul2d that a whole threadgroup computes. Used for 16-bit elements on
// GPUs where matmul2d is fastest with large tiles.
#include "attention/attention_kernels.h"
#include "attention/attention_tiles.h"
#include "lib/instantiate.h"

// Columns per tile, tuned on an H100 for 2048 queries and keys. They leave room for a second threadgroup on the
// multiprocessor, whose products run during the softmax of the first one.
template <typename T, uint HEAD_DIM>
using Forward = AttentionTiles<T, HEAD_DIM, 8192 / HEAD_DIM, 2>;
template <typename T, uint HEAD_DIM>
using Backward = AttentionTiles<T, HEAD_DIM, 64, 3>;

#define MPSX_ATTENTION_TILES_BACKWARD(HEAD_DIM, PASS, GRAD, T, TAG)           \
  MPSX_KERNEL("attention_tensor_tiles_backward_" PASS "_" #HEAD_DIM "_" #TAG, \
              attention_tiles_backward<T, Backward<T, HEAD_DIM>, GRAD>)
#define MPSX_ATTENTION_TILES(T, TAG)                                                   \
  MPSX_KERNEL("attention_tensor_tiles_64_" #TAG, attention_tiles<T, Forward<T, 64>>)   \
  MPSX_KERNEL("attention_tensor_tiles_128_" #TAG, attention_tiles<T, Forward<T, 128>>) \
  MPSX_ATTENTION_TILES_BACKWARD(64, "dq", kGradQ, T, TAG)                              \
  MPSX_ATTENTION_TILES_BACKWARD(64, "dkv", uint(kGradK) | uint(kGradV), T, TAG)        \
  MPSX_ATTENTION_TILES_BACKWARD(128, "dq", kGradQ, T, TAG)                             \
  MPSX_ATTENTION_TILES_BACKWARD(128, "dk", kGradK, T, TAG)                             \
  MPSX_ATTENTION_TILES_BACKWARD(128, "dv", kGradV, T, TAG)
MPSX_ATTENTION_TILES(half, f16)
MPSX_ATTENTION_TILES(bfloat, bf16)
