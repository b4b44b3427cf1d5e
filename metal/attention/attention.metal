// FlashAttention, forward and backward, using simdgroup_matrix.
#include "attention/attention_kernels.h"
#include "lib/instantiate.h"

// Compute 16-bit tiles in two steps, so that S and the accumulators fit in registers. Compute float tiles in a single
// step, so that fragments are loaded less often.
template <typename T, uint HEAD_DIM>
using BackwardShape = AttentionShape<T, HEAD_DIM, 4 / sizeof(T)>;
// Up to head dimension 64, one kernel computes both dK and dV, because their accumulators fit in its registers
// together.
#define MPSX_ATTENTION_FORWARD_DQ(HEAD_DIM, T, TAG)                                       \
  MPSX_KERNEL("attention_" #HEAD_DIM "_" #TAG, attention<T, AttentionShape<T, HEAD_DIM>>) \
  MPSX_KERNEL("attention_backward_dq_" #HEAD_DIM "_" #TAG, attention_backward<T, BackwardShape<T, HEAD_DIM>, kGradQ>)
#define MPSX_ATTENTION_LARGE(HEAD_DIM, T, TAG)                                                                        \
  MPSX_ATTENTION_FORWARD_DQ(HEAD_DIM, T, TAG)                                                                         \
  MPSX_KERNEL("attention_backward_dk_" #HEAD_DIM "_" #TAG, attention_backward<T, BackwardShape<T, HEAD_DIM>, kGradK>) \
  MPSX_KERNEL("attention_backward_dv_" #HEAD_DIM "_" #TAG, attention_backward<T, BackwardShape<T, HEAD_DIM>, kGradV>)
#define MPSX_ATTENTION(T, TAG, ...)                                                     \
  MPSX_ATTENTION_FORWARD_DQ(64, T, TAG)                                                 \
  MPSX_KERNEL("attention_backward_dkv_64_" #TAG,                                        \
              attention_backward<T, BackwardShape<T, 64>, uint(kGradK) | uint(kGradV)>) \
  MPSX_ATTENTION_LARGE(128, T, TAG)                                                     \
  MPSX_ATTENTION_LARGE(256, T, TAG)
MPSX_FOR_FLOAT(MPSX_ATTENTION)
