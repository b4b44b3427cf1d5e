// SwiGLU: x * silu(gate), where silu(v) = v / (1 + exp(-v)). N. Shazeer, arXiv:2002.05202, equation 6.
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

// If STRIDED, the strides are in p.stride, in the order of the operands in SwigluParams. Otherwise all strides are 1.
template <bool STRIDED, uint N, typename T>
inline void swiglu_gradients(VecLoop<N, true> d, device T* grad_x, device T* grad_gate, device const T* grad,
                            device const T* x, device const T* gate, constant SwigluParams& p) {
  for (; d.more(); d.next()) {
    const VecBatch<T, N> g = load_vecs(d, grad, STRIDED ? p.stride[2][0] : 1);
    const VecBatch<T, N> value = load_vecs(d, x, STRIDED ? p.stride[3][0] : 1);
    const VecBatch<T, N> v = load_vecs(d, gate, STRIDED ? p.stride[4][0] : 1);
    VecBatch<T, N> gx, gg;
    MPSX_UNROLL for (uint i = 0; i < gx.count; ++i) {
      float slope;
      const float silu = silu_and_slope(float(v.at[i]), slope);
      gx.at[i] = T(float(g.at[i]) * silu);
      gg.at[i] = T(float(g.at[i]) * float(value.at[i]) * slope);
    }
    store_vecs(d, grad_x, STRIDED ? p.stride[0][0] : 1, gx);
    store_vecs(d, grad_gate, STRIDED ? p.stride[1][0] : 1, gg);
  }
}
template <typename T, bool STRIDED>
kernel void swiglu_backward(device T* grad_x [[buffer(0)]], device T* grad_gate [[buffer(1)]],
                            device const T* grad [[buffer(2)]], device const T* x [[buffer(3)]],
                            device const T* gate [[buffer(4)]], constant SwigluParams& p [[buffer(5)]],
                            MPSX_GRID_PARAMETERS) {
  device T* to_x = grad_x + row_offset(p, 0, gid);
  device T* to_gate = grad_gate + row_offset(p, 1, gid);
  device const T* from_grad = grad + row_offset(p, 2, gid);
  device const T* from_x = x + row_offset(p, 3, gid);
  device const T* from_gate = gate + row_offset(p, 4, gid);
  MPSX_VEC_LOOPS(T, T, p.size[0], swiglu_gradients<STRIDED>, to_x, to_gate, from_grad, from_x, from_gate, p);
}

#define SWIGLU_BACKWARD(T, TAG, ...)                                               \
  MPSX_KERNEL("swiglu_backward_dense_" #TAG, swiglu_backward<T, false>)            \
  MPSX_KERNEL("swiglu_backward_strided_" #TAG, swiglu_backward<T, true>)
MPSX_FOR_FLOAT(MPSX_BINARY_KERNELS_FIXED, swiglu, SAME)
MPSX_FOR_FLOAT(SWIGLU_BACKWARD, )
