// The tensor tier of attention.metal for 16-bit elements: FlashAttention, forward and backward, using Metal 4's
// matmul2d.
#include "attention/attention_kernels.h"
#include "attention/attention_tensor.h"
#include "lib/instantiate.h"

template <typename T, uint HEAD_DIM, uint STEPS>
using TensorShape = AttentionShape<T, HEAD_DIM, STEPS, TensorFragments<T>>;

// Each step of the backward pass computes at least 32 columns, the number that one matmul2d computes.
#define MPSX_ATTENTION_TENSOR(HEAD_DIM, STEPS, T, TAG)                                           \
  MPSX_KERNEL("attention_tensor_" #HEAD_DIM "_" #TAG, attention<T, TensorShape<T, HEAD_DIM, 1>>) \
  MPSX_KERNEL("attention_tensor_backward_dq_" #HEAD_DIM "_" #TAG,                                \
              attention_backward<T, TensorShape<T, HEAD_DIM, STEPS>, kGradQ>)
#define MPSX_ATTENTION_TENSOR_TYPE(T, TAG)                                                                     \
  MPSX_ATTENTION_TENSOR(64, 2, T, TAG)                                                                         \
  MPSX_KERNEL("attention_tensor_backward_dkv_64_" #TAG,                                                        \
              attention_backward<T, TensorShape<T, 64, 2>, uint(kGradK) | uint(kGradV)>)                       \
  MPSX_ATTENTION_TENSOR(128, 1, T, TAG)                                                                        \
  MPSX_KERNEL("attention_tensor_backward_dk_128_" #TAG, attention_backward<T, TensorShape<T, 128, 1>, kGradK>) \
  MPSX_KERNEL("attention_tensor_backward_dv_128_" #TAG, attention_backward<T, TensorShape<T, 128, 1>, kGradV>)
MPSX_ATTENTION_TENSOR_TYPE(half, f16)
MPSX_ATTENTION_TENSOR_TYPE(bfloat, bf16)
