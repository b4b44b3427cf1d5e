// SwiGLU: x * silu(gate), silu(v) = v / (1 + exp(-v)). N. Shazeer, arXiv:2002.05202, equation 6.
#include "elementwise/kernels.h"
#include "elementwise/swiglu_params.h"
#include "lib/math.h"

struct swiglu_op {
  template <typename C>
  static C apply(C x, C gate, Scalars<C>) {
    return x * (gate * sigmoid(gate));
  }
};

inline float silu_and_slope(float gate, thread float& slope) {
  const float y = sigmoid(gate);
  slope = y * (1.0f + gate * (1.0f - y));
  return gate * y;
}

template <typename T>
kernel void swiglu_backward_dense(device T* grad_x [[buffer(0)]], device T* grad_gate [[buffer(1)]],
                                  device const T* grad [[buffer(2)]], device const T* x [[buffer(3)]],
                                  device const T* gate [[buffer(4)]], constant uint& count [[buffer(5)]],
                                  uint tid [[thread_position_in_grid]]) {
  MPSX_EACH_LANE(T, i, tid, count) {
    float slope;
    const float g = float(grad[i]), silu = silu_and_slope(float(gate[i]), slope);
    const float gx = g * silu, gg = g * float(x[i]) * slope;
    grad_x[i] = T(gx);
    grad_gate[i] = T(gg);
  }
}

// Any strides; S is the innermost one of every operand where it is known.
template <typename T, int S>
kernel void swiglu_backward_strided(device T* grad_x [[buffer(0)]], device T* grad_gate [[buffer(1)]],
                                    device const T* grad [[buffer(2)]], device const T* x [[buffer(3)]],
                                    device const T* gate [[buffer(4)]], constant SwigluParams& p [[buffer(5)]],
                                    uint3 gid [[thread_position_in_grid]]) {
  float slope;
  const float silu = silu_and_slope(float((gate + row_offset(p, 4, gid))[long(gid.x) * x_stride<S>(p, 4)]), slope);
  const float g = float((grad + row_offset(p, 2, gid))[long(gid.x) * x_stride<S>(p, 2)]);
  const float value = float((x + row_offset(p, 3, gid))[long(gid.x) * x_stride<S>(p, 3)]);
  (grad_x + row_offset(p, 0, gid))[long(gid.x) * x_stride<S>(p, 0)] = T(g * silu);
  (grad_gate + row_offset(p, 1, gid))[long(gid.x) * x_stride<S>(p, 1)] = T(g * value * slope);
}

#define SWIGLU_BACKWARD(T, TAG, ...)                                                        \
  MPSX_KERNEL("swiglu_backward_dense_" #TAG, swiglu_backward_dense<T>)                      \
  MPSX_KERNEL("swiglu_backward_rows_" #TAG, swiglu_backward_strided<T, 1>)                  \
  MPSX_KERNEL("swiglu_backward_any_" #TAG, swiglu_backward_strided<T, kAnyStride>)
// Of a binary operator's kernels those without a number for an operand.
#define SWIGLU(T, TAG, ...)                                                      \
  MPSX_KERNEL("swiglu_dense_" #TAG, binary_dense<T, T, swiglu_op>)               \
  MPSX_KERNEL("swiglu_rows_11_" #TAG, binary_rows<T, T, swiglu_op, 1, 1>)        \
  MPSX_KERNEL("swiglu_rows_10_" #TAG, binary_rows<T, T, swiglu_op, 1, 0>)        \
  MPSX_KERNEL("swiglu_rows_01_" #TAG, binary_rows<T, T, swiglu_op, 0, 1>)        \
  MPSX_KERNEL("swiglu_any_" #TAG, binary_any<T, T, swiglu_op>)
MPSX_FOR_FLOAT(SWIGLU, )
MPSX_FOR_FLOAT(SWIGLU_BACKWARD, )
