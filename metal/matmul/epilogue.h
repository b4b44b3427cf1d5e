// GEMM epilogues, which turn accumulators into output elements.
#pragma once

#include "lib/gelu.h"
#include "lib/gemm.h"
#include "lib/math.h"
#include "matmul/params.h"

// The accumulator type is float for floating-point types. For integers, it is the unsigned type, so that sums wrap
// around.
template <typename T>
struct accumulator {
  typedef unsigned_of_t<T> type;
};
template <>
struct accumulator<float> {
  typedef float type;
};
template <>
struct accumulator<half> {
  typedef float type;
};
template <>
struct accumulator<bfloat> {
  typedef float type;
};
template <typename T>
using accumulator_t = typename accumulator<T>::type;

// Uses the expressions of activation.def and unary.def, so that a fused activation returns the same as a separate one.
// Only silu may differ in the last bits: its correctly rounded division would be a function call on NVIDIA GPUs, and a
// kernel with calls executes wgmma instructions one by one.
inline float apply_activation(float x, uint activation) {
  switch (activation) {
    case kActivationRelu: return x < 0.0f ? 0.0f : x;
    case kActivationGelu: return 0.5f * x * twice_normal_cdf(x);
    case kActivationGeluTanh: return gelu_tanh(x);
    case kActivationSilu: return x * fast::divide(1.0f, 1.0f + precise::exp(-x));
    default: return x;
  }
}
// Do not inline this, because the epilogue is unrolled over fragments.
__attribute__((noinline)) static float activate(float x, uint activation) { return apply_activation(x, activation); }

inline float apply_alpha(float acc, constant MatmulParams& p) { return p.alpha * acc; }
inline float apply_beta(float c, constant MatmulParams& p) { return p.beta * c; }
inline float apply_activation(float x, constant MatmulParams& p) {
  return p.activation == kActivationNone ? x : activate(x, p.activation);
}
template <typename S>
inline S apply_alpha(S acc, constant MatmulParams& p) {
  return acc * S(p.alpha_int);
}
template <typename S>
inline S apply_beta(S c, constant MatmulParams& p) {
  return c * S(p.beta_int);
}
template <typename S>
inline S apply_activation(S x, constant MatmulParams&) {
  return x;
}

// O is the element type of the output, of c and of the scales.
template <typename O>
struct MatmulEpilogue {
  device O* out;
  device const O* c;
  device const O* scale;
  constant MatmulParams& p;

  template <typename S>
  METAL_FUNC void store(uint row, uint column, S acc) const {
    S value = acc;
    if (p.has_scale) value *= S(scale[long(column) * p.scale]);
    value = apply_alpha(value, p);
    if (p.has_c) value += apply_beta(S(c[long(row) * p.c.row + long(column) * p.c.column]), p);
    out[long(row) * p.out.row + long(column) * p.out.column] = O(apply_activation(value, p));
  }
};

template <typename O>
inline MatmulEpilogue<O> matmul_epilogue(device O* out, device const O* c, device const O* scale,
                                         constant MatmulParams& p, uint batch) {
  return {out + long(batch) * p.out.batch, p.has_c ? c + long(batch) * p.c.batch : c, scale, p};
}
