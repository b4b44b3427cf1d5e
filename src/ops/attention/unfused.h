// Attention that stores blocks of S in device memory and multiplies them with GEMMs. In float32, the tensor tier's
// GEMMs are several times as fast as fused kernels, whose tiles would not fit in registers.
#pragma once

#include <tuple>

#include "attention/attention_params.h"
#include "ops/op.h"

namespace mpsx::ops {

// Query, key and value have shape [batch, heads, length, head_dim]. The mask is float32, has the query's dtype, or
// is undefined. `seed` and `offset`, the state of the random number generator for dropout, are int64 scalars on the
// device, or undefined.
struct AttentionInputs {
  Tensor query, key, value, mask{}, seed{}, offset{};
  AttentionParams p{};
};

// Returns whether a pass is faster unfused.
bool prefers_unfused_attention(const AttentionInputs& in, bool backward);

// Computes attention. `lse` must be contiguous.
Tensor unfused_attention(const AttentionInputs& in, const Tensor& lse);

// Returns dQ, dK and dV. `grad_out` and `out` must have aligned rows, and `lse` must be contiguous.
std::tuple<Tensor, Tensor, Tensor> unfused_attention_backward(const AttentionInputs& in, const Tensor& grad_out,
                                                              const Tensor& out, const Tensor& lse);

}  // namespace mpsx::ops
