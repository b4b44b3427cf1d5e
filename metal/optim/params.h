#pragma once

#include "lib/shared.h"

// Operators on lists of tensors process many tensors per launch. Metal binds 31 buffers, the last of which has these
// parameters. A launch with k lists holds 30 / k tensors; list l of tensor t is buffer l * tensors + t.
enum : uint32_t { kListBuffers = 30, kListChunk = 8192 };  // kListChunk: elements per threadgroup

struct ListParams {
  uint64_t numel[kListBuffers];  // by tensor
  uint32_t end[kListBuffers];    // by tensor: one past its last threadgroup
  float scalar[kListBuffers];    // by tensor
  uint32_t tensors;
  uint32_t input;  // the first list that is read: 0 in place, otherwise 1
  uint32_t packed, unused;  // packed: all tensors are aligned to vectors (lib/pack.h)
};
static_assert(sizeof(ListParams) == 16 * kListBuffers + 16, "kernels and launchers share this layout");

// Fused optimizers. Single values use the last buffers, after those of the lists.
enum : uint32_t { kOptimizerBuffers = 27, kRateBuffer = 27, kGradScaleBuffer = 28, kFoundInfBuffer = 29 };
enum : uint32_t {
  kTensorRate = 1,  // the learning rate is a buffer
  kGradScale = 2,
  kFoundInf = 4,
  kMaximize = 8,
  kFirstStep = 16,
};

struct OptimizerParams {
  uint32_t flags;
  float rate, weight_decay, eps;
  float beta1, beta2, one_minus_beta1, one_minus_beta2, log_beta1, log_beta2;  // each rounded once from double
  float momentum, one_minus_dampening;
};

struct FusedParams {
  ListParams lists;
  OptimizerParams step;
};
static_assert(sizeof(FusedParams) <= 4096, "what Metal takes as inline bytes");

struct AmpParams {
  int64_t interval;
  float growth, backoff;
};
