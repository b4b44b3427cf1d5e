#pragma once

#include "lib/types.h"

// List kernels process many tensors per launch. Metal binds at most 31 buffers, and the last one holds these
// parameters, so a launch with k lists processes at most 30 / k tensors. Tensor t of list l is in buffer l * tensors +
// t.
enum : uint32_t { kListBuffers = 30, kListChunk = 8192 };  // kListChunk: elements per threadgroup

struct ListParams {
  uint64_t numel[kListBuffers];  // elements per tensor
  uint32_t end[kListBuffers];    // end of each tensor's range of threadgroups
  float scalar[kListBuffers];    // per-tensor scalar argument
  uint32_t tensors;
  uint32_t input;               // index of the first input list: 0 if the operator is in place, otherwise 1
  uint32_t vectorized, unused;  // vectorized: whether all tensors are aligned for vector access (lib/vec.h)
};
static_assert(sizeof(ListParams) == 16 * kListBuffers + 16, "kernels and launchers share this layout");

// Fused optimizers. Scalar tensors are bound after the lists.
enum : uint32_t { kOptimizerBuffers = 27, kRateBuffer = 27, kGradScaleBuffer = 28, kFoundInfBuffer = 29 };
enum : uint32_t {
  kTensorRate = 1,  // the learning rate is a tensor
  kGradScale = 2,
  kFoundInf = 4,
  kMaximize = 8,
  kFirstStep = 16,
};

struct OptimizerParams {
  uint32_t flags;
  float rate, weight_decay, eps;
  // The host computes each of these in double and rounds it once.
  float beta1, beta2, one_minus_beta1, one_minus_beta2, log_beta1, log_beta2;
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
