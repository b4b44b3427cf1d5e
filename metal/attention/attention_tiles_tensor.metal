// FlashAttention, forward and backward, using a matmul2d that a whole threadgroup computes. Used for 16-bit elements on
// GPUs where matmul2d is fastest with large tiles. Apple's matmul2d takes cooperative operands only in
// execution_simdgroup, so its compiler skips this file.
#ifdef MPSX_TRANSLATED
#include "attention/attention_kernels.h"
#include "attention/attention_tiles.h"
#include "lib/instantiate.h"

// Columns per tile, tuned on an H100 for 2048 queries and keys. They leave room for a second threadgroup on the
// multiprocessor, whose products run during the softmax of the first one.
template <typename T, uint HEAD_DIM>
using Forward = AttentionTiles<T, HEAD_DIM, 8192 / HEAD_DIM, 2, attention_tile_simdgroups(false, HEAD_DIM), false>;
template <typename T, uint HEAD_DIM>
using Backward = AttentionTiles<T, HEAD_DIM, 64, 4, attention_tile_simdgroups(true, HEAD_DIM), true>;

#define MPSX_ATTENTION_TILES(HEAD_DIM, T, TAG)                                                        \
  MPSX_KERNEL("attention_tensor_tiles_" #HEAD_DIM "_" #TAG, attention_tiles<T, Forward<T, HEAD_DIM>>) \
  MPSX_KERNEL("attention_tensor_tiles_backward_dq_" #HEAD_DIM "_" #TAG,                               \
              attention_tiles_backward<T, Backward<T, HEAD_DIM>, true, true>)                         \
  MPSX_KERNEL("attention_tensor_tiles_backward_dkv_" #HEAD_DIM "_" #TAG,                              \
              attention_tiles_backward<T, Backward<T, HEAD_DIM>, false, HEAD_DIM == 64>)
MPSX_ATTENTION_TILES(64, half, f16)
MPSX_ATTENTION_TILES(64, bfloat, bf16)
MPSX_ATTENTION_TILES(128, half, f16)
MPSX_ATTENTION_TILES(128, bfloat, bf16)
#endif
