// The kernels that elementwise operators instantiate. An operator is a struct with `template <typename C> static …
// apply(C x, …, Scalars<C> s)`, where C is the compute type. Operators that only select or flip bits return exact().
//
//   dense             all operands have stride 1 along x; threads move 16-byte vectors. With three inputs, the
//                     second and third may be broadcast columns
//   rows_10, rows_01  like dense, but one input is a broadcast column (stride 0 along x)
//   mixed             like dense, for two inputs of different types
//   strided           any strides; each thread computes a few elements, interleaved with other threads' elements
//
// y and z index the outer dimensions (see row_offset). A scalar operand has no memory, so the launcher passes a
// different operand's pointer instead. The kernel always loads from it and then selects the scalar.
#pragma once

#include "elementwise/scalars.h"
#include "lib/instantiate.h"
#include "lib/index.h"
#include "lib/vec_loop.h"

// A float that the element type represents exactly. Converting it to bfloat keeps the upper 16 bits, without rounding.
struct Exact {
  float value;
};
inline Exact exact(float x) { return {x}; }
template <typename T>
inline T exact(T x) { return x; }
template <typename R>
struct from_exact {
  static R of(float x) { return R(x); }
};
template <>
struct from_exact<bfloat> {
  static bfloat of(float x) { return as_type<bfloat>(ushort(as_type<uint>(x) >> 16)); }
};
template <typename R, typename Y>
inline R to_element(Y y) { return R(y); }
template <typename R>
inline R to_element(Exact y) { return from_exact<R>::of(y.value); }

// Returns the value of an operand: `number` if the operand is inlined, otherwise the loaded element.
template <typename C>
inline C operand(bool inlined, C number, C loaded) { return inlined ? number : loaded; }

template <typename Op, uint N, typename T, typename R>
inline void unary(VecLoop<N, true> d, device R* out, long to, device const T* x, long from, constant ScalarParams& s) {
  typedef compute_t<T> C;
  const Scalars<C> scalar = scalars<C>(s);
  for (; d.more(); d.next()) {
    const VecBatch<T, N> v = load_vecs(d, x, from);
    VecBatch<R, N> y;
    MPSX_UNROLL for (uint i = 0; i < y.count; ++i) y.at[i] = to_element<R>(Op::template apply<C>(C(v.at[i]), scalar));
    store_vecs(d, out, to, y);
  }
}
template <typename T, typename R, typename Op>
kernel void unary_dense(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                        constant StridedParams& p [[buffer(2)]], constant ScalarParams& s [[buffer(3)]],
                        MPSX_GRID_PARAMETERS) {
  device R* to = out + row_offset(p, 0, gid);
  device const T* from = x + row_offset(p, 1, gid);
  MPSX_VEC_LOOPS(T, R, p.size[0], unary<Op>, to, 1, from, 1, s);
}
template <typename T, typename R, typename Op>
kernel void unary_strided(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                          constant StridedParams& p [[buffer(2)]], constant ScalarParams& s [[buffer(3)]],
                          MPSX_GRID_PARAMETERS) {
  unary<Op>(MPSX_SCALAR_LOOP, out + row_offset(p, 0, gid), p.stride[0][0], x + row_offset(p, 1, gid),
            p.stride[1][0], s);
}

template <typename Op, uint N, typename T, typename U, typename R>
inline void binary(VecLoop<N, true> d, device R* out, long to, device const T* a, long from_a, device const U* b,
                   long from_b, constant ScalarParams& s, uint inlined) {
  typedef compute_t<T> C;
  const Scalars<C> scalar = scalars<C>(s);
  for (; d.more(); d.next()) {
    const VecBatch<T, N> ma = load_vecs(d, a, from_a);
    const VecBatch<U, N> mb = load_vecs(d, b, from_b);
    VecBatch<R, N> y;
    MPSX_UNROLL for (uint i = 0; i < y.count; ++i) {
      const C va = operand(inlined & 2, scalar.c, C(ma.at[i])), vb = operand(inlined & 4, scalar.c, C(mb.at[i]));
      y.at[i] = to_element<R>(Op::template apply<C>(va, vb, scalar));
    }
    store_vecs(d, out, to, y);
  }
}
// SA and SB are the strides of the inputs along x: 0 or 1. They differ only if neither input is a scalar.
template <typename T, typename R, typename Op, uint SA, uint SB>
kernel void binary_rows(device R* out [[buffer(0)]], device const T* a [[buffer(1)]],
                        device const T* b [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                        constant ScalarParams& s [[buffer(4)]], MPSX_GRID_PARAMETERS) {
  device R* to = out + row_offset(p, 0, gid);
  device const T* from_a = a + row_offset(p, 1, gid);
  device const T* from_b = b + row_offset(p, 2, gid);
  MPSX_VEC_LOOPS(T, R, p.size[0], binary<Op>, to, 1, from_a, SA, from_b, SB, s, SA == SB ? s.inlined : 0);
}
// For dense operands of different types. The result has the first one's type.
template <typename T, typename U, typename Op>
kernel void binary_mixed(device T* out [[buffer(0)]], device const T* a [[buffer(1)]], device const U* b [[buffer(2)]],
                         constant StridedParams& p [[buffer(3)]], constant ScalarParams& s [[buffer(4)]],
                         MPSX_GRID_PARAMETERS) {
  device T* to = out + row_offset(p, 0, gid);
  device const T* from_a = a + row_offset(p, 1, gid);
  device const U* from_b = b + row_offset(p, 2, gid);
  MPSX_VEC_LOOPS(T, U, p.size[0], binary<Op>, to, 1, from_a, 1, from_b, 1, s, 0);
}
template <typename T, typename R, typename Op>
kernel void binary_strided(device R* out [[buffer(0)]], device const T* a [[buffer(1)]],
                           device const T* b [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                           constant ScalarParams& s [[buffer(4)]], MPSX_GRID_PARAMETERS) {
  binary<Op>(MPSX_SCALAR_LOOP, out + row_offset(p, 0, gid), p.stride[0][0], a + row_offset(p, 1, gid),
             p.stride[1][0], b + row_offset(p, 2, gid), p.stride[2][0], s, s.inlined);
}

// Elementwise loop over three inputs. The first input may have a different type, such as the bool condition of where().
template <typename Op, uint N, typename A, typename T>
inline void ternary(VecLoop<N, true> d, device T* out, long to, device const A* a, long from_a, device const T* b,
                    long from_b, device const T* c, long from_c, constant ScalarParams& s) {
  typedef compute_t<T> C;
  typedef compute_t<A> CA;
  const Scalars<C> scalar = scalars<C>(s);
  for (; d.more(); d.next()) {
    const VecBatch<A, N> va = load_vecs(d, a, from_a);
    const VecBatch<T, N> mb = load_vecs(d, b, from_b), mc = load_vecs(d, c, from_c);
    VecBatch<T, N> y;
    MPSX_UNROLL for (uint i = 0; i < y.count; ++i) {
      const C vb = operand(s.inlined & 4, scalar.c, C(mb.at[i])), vc = operand(s.inlined & 8, scalar.c, C(mc.at[i]));
      y.at[i] = T(Op::template apply<CA, C>(CA(va.at[i]), vb, vc, scalar));
    }
    store_vecs(d, out, to, y);
  }
}
template <typename A, typename T, typename Op>
kernel void ternary_dense(device T* out [[buffer(0)]], device const A* a [[buffer(1)]],
                          device const T* b [[buffer(2)]], device const T* c [[buffer(3)]],
                          constant StridedParams& p [[buffer(4)]], constant ScalarParams& s [[buffer(5)]],
                          MPSX_GRID_PARAMETERS) {
  device T* to = out + row_offset(p, 0, gid);
  device const A* from_a = a + row_offset(p, 1, gid);
  device const T* from_b = b + row_offset(p, 2, gid);
  device const T* from_c = c + row_offset(p, 3, gid);
  MPSX_VEC_LOOPS(A, T, p.size[0], ternary<Op>, to, 1, from_a, 1, from_b, p.stride[2][0], from_c, p.stride[3][0], s);
}
template <typename A, typename T, typename Op>
kernel void ternary_strided(device T* out [[buffer(0)]], device const A* a [[buffer(1)]],
                            device const T* b [[buffer(2)]], device const T* c [[buffer(3)]],
                            constant StridedParams& p [[buffer(4)]], constant ScalarParams& s [[buffer(5)]],
                            MPSX_GRID_PARAMETERS) {
  ternary<Op>(MPSX_SCALAR_LOOP, out + row_offset(p, 0, gid), p.stride[0][0], a + row_offset(p, 1, gid),
              p.stride[1][0], b + row_offset(p, 2, gid), p.stride[2][0], c + row_offset(p, 3, gid), p.stride[3][0], s);
}

#define MPSX_RESULT_SAME(T) T
#define MPSX_RESULT_BOOL(T) bool
#define MPSX_UNARY_KERNELS(T, TAG, NAME, RESULT)                                                \
  MPSX_KERNEL(#NAME "_dense_" #TAG, unary_dense<T, MPSX_RESULT_##RESULT(T), NAME##_op>)         \
  MPSX_KERNEL(#NAME "_strided_" #TAG, unary_strided<T, MPSX_RESULT_##RESULT(T), NAME##_op>)
// For operators that have no kernels for broadcast columns.
#define MPSX_PLAIN_BINARY_KERNELS(T, TAG, NAME, R)                       \
  MPSX_KERNEL(#NAME "_dense_" #TAG, binary_rows<T, R, NAME##_op, 1, 1>)  \
  MPSX_KERNEL(#NAME "_strided_" #TAG, binary_strided<T, R, NAME##_op>)
// A commutative operator needs a broadcast kernel only for the right operand.
#define MPSX_BINARY_KERNELS_SWAPS(T, TAG, NAME, RESULT)                       \
  MPSX_PLAIN_BINARY_KERNELS(T, TAG, NAME, MPSX_RESULT_##RESULT(T))            \
  MPSX_KERNEL(#NAME "_rows_10_" #TAG, binary_rows<T, MPSX_RESULT_##RESULT(T), NAME##_op, 1, 0>)
#define MPSX_BINARY_KERNELS_FIXED(T, TAG, NAME, RESULT)                       \
  MPSX_BINARY_KERNELS_SWAPS(T, TAG, NAME, RESULT)                             \
  MPSX_KERNEL(#NAME "_rows_01_" #TAG, binary_rows<T, MPSX_RESULT_##RESULT(T), NAME##_op, 0, 1>)
#define MPSX_TERNARY_KERNELS(T, TAG, NAME)                                  \
  MPSX_KERNEL(#NAME "_dense_" #TAG, ternary_dense<T, T, NAME##_op>)         \
  MPSX_KERNEL(#NAME "_strided_" #TAG, ternary_strided<T, T, NAME##_op>)
