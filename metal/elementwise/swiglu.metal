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

// Operands: the gradients of x and of the gate, then grad, x and the gate.
template <typename T>
kernel void swiglu_backward_dense(device T* grad_x [[buffer(0)]], device T* grad_gate [[buffer(1)]],
                                  device const T* grad [[buffer(2)]], device const T* x [[buffer(3)]],
                                  device const T* gate [[buffer(4)]], constant SwigluParams& p [[buffer(5)]],
                                  uint3 gid [[thread_position_in_grid]]) {
  device T* to_x = grad_x + row_offset(p, 0, gid);
  device T* to_gate = grad_gate + row_offset(p, 1, gid);
  device const T* from_grad = grad + row_offset(p, 2, gid);
  device const T* from_x = x + row_offset(p, 3, gid);
  device const T* from_gate = gate + row_offset(p, 4, gid);
  MPSX_EACH_LANE(T, i, gid.x, p.size[0]) {
    float slope;
    const float g = float(from_grad[i]), silu = silu_and_slope(float(from_gate[i]), slope);
    const float gx = g * silu, gg = g * float(from_x[i]) * slope;
    to_x[i] = T(gx);
    to_gate[i] = T(gg);
  }
}
template <typename T>
kernel void swiglu_backward_strided(device T* grad_x [[buffer(0)]], device T* grad_gate [[buffer(1)]],
                                    device const T* grad [[buffer(2)]], device const T* x [[buffer(3)]],
                                    device const T* gate [[buffer(4)]], constant SwigluParams& p [[buffer(5)]],
                                    uint3 gid [[thread_position_in_grid]]) {
  float slope;
  const float silu = silu_and_slope(float(gate[grid_offset(p, 4, gid)]), slope);
  const float g = float(grad[grid_offset(p, 2, gid)]), value = float(x[grid_offset(p, 3, gid)]);
  grad_x[grid_offset(p, 0, gid)] = T(g * silu);
  grad_gate[grid_offset(p, 1, gid)] = T(g * value * slope);
}

#define SWIGLU_BACKWARD(T, TAG, ...)                                        \
  MPSX_KERNEL("swiglu_backward_dense_" #TAG, swiglu_backward_dense<T>)      \
  MPSX_KERNEL("swiglu_backward_strided_" #TAG, swiglu_backward_strided<T>)
MPSX_FOR_FLOAT(MPSX_BINARY_KERNELS_FIXED, swiglu, SAME)
MPSX_FOR_FLOAT(SWIGLU_BACKWARD, )
