// From a sum of products to an element of the result.
#pragma once

#include "lib/math.h"
#include "lib/tile_product.h"
#include "matmul/params.h"

// Sums of integers wrap around, those of the floating-point types are floats.
template <typename T> struct product_sum { typedef unsigned_of_t<T> type; };
template <> struct product_sum<float> { typedef float type; };
template <> struct product_sum<half> { typedef float type; };
template <> struct product_sum<bfloat> { typedef float type; };
template <typename T> using product_sum_t = typename product_sum<T>::type;

// Not inlined, since there is one for each of a SIMD group's rows.
__attribute__((noinline)) static float activated(float x, uint activation) {
  switch (activation) {
    case kActivationRelu: return is_nan(x) ? x : max(x, 0.0f);
    case kActivationGelu: return 0.5f * x * (1.0f + erf(x * M_SQRT1_2_F));
    case kActivationGeluTanh: {
      const float inner = (M_SQRT2_F * M_2_SQRTPI_F * 0.5f) * fma(0.044715f * x * x, x, x);
      return 0.5f * x * (1.0f + precise::tanh(inner));
    }
    case kActivationSilu: return x * sigmoid(x);
    default: return x;
  }
}

inline float scaled(float sum, constant MatmulParams& p) { return p.alpha * sum; }
inline float scaled_start(float c, constant MatmulParams& p) { return p.beta * c; }
inline float result_of(float x, constant MatmulParams& p) {
  return p.activation == kActivationNone ? x : activated(x, p.activation);
}
template <typename S> inline S scaled(S sum, constant MatmulParams& p) { return sum * S(p.alpha_whole); }
template <typename S> inline S scaled_start(S c, constant MatmulParams& p) { return c * S(p.beta_whole); }
template <typename S> inline S result_of(S x, constant MatmulParams&) { return x; }

// O: of the result, c and the scale.
template <typename O>
struct MatmulFinish {
  device O* out;
  device const O* c;
  device const O* scale;
  constant MatmulParams& p;

  template <typename S>
  METAL_FUNC void put(uint row, uint column, S sum) const {
    S value = sum;
    if (p.has_scale) value *= S(scale[long(column) * p.scale]);
    value = scaled(value, p);
    if (p.has_c) value += scaled_start(S(c[long(row) * p.c.row + long(column) * p.c.column]), p);
    out[long(row) * p.out.row + long(column) * p.out.column] = O(result_of(value, p));
  }
};

template <typename O>
inline MatmulFinish<O> matmul_finish(device O* out, device const O* c, device const O* scale, constant MatmulParams& p,
                                     uint batch) {
  return {out + long(batch) * p.out.batch, p.has_c ? c + long(batch) * p.c.batch : c, scale, p};
}
