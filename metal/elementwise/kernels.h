// The kernels that every elementwise operator is an instance of. An operator is a struct with
// `template <typename C> static … apply(C x, …, Scalars<C> s)`, where C is the type it computes in.
//
//   dense             every operand's stride along x is 1; a thread takes lanes<T> neighbours
//   rows_10, rows_01  the same, but one input does not move along x (a broadcast column)
//   strided           any strides; a thread takes one element
//
// y and z are the outer dimensions (row_offset). An input that is a number has no memory of its own: the launcher
// passes another operand's, so that every kernel loads unconditionally and selects afterwards.
#pragma once

#include "elementwise/elements.h"
#include "elementwise/scalars.h"
#include "lib/instantiate.h"
#include "lib/index.h"

template <typename T, typename R, typename Op>
kernel void unary_dense(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                        constant StridedParams& p [[buffer(2)]], constant ScalarParams& s [[buffer(3)]],
                        uint3 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  device R* to = out + row_offset(p, 0, gid);
  device const T* from = x + row_offset(p, 1, gid);
  MPSX_EACH_LANE(T, i, gid.x, p.size[0])
    set_element(to, i, R(Op::template apply<C>(C(element(from, i)), scalars<C>(s))));
}
template <typename T, typename R, typename Op>
kernel void unary_strided(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                          constant StridedParams& p [[buffer(2)]], constant ScalarParams& s [[buffer(3)]],
                          uint3 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  out[grid_offset(p, 0, gid)] = R(Op::template apply<C>(C(x[grid_offset(p, 1, gid)]), scalars<C>(s)));
}

// SA, SB: the inputs' strides along x, 0 or 1.
template <typename T, typename R, typename Op, uint SA, uint SB>
kernel void binary_rows(device R* out [[buffer(0)]], device const T* a [[buffer(1)]],
                        device const T* b [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                        constant ScalarParams& s [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  const Scalars<C> scalar = scalars<C>(s);
  device R* to = out + row_offset(p, 0, gid);
  device const T* from_a = a + row_offset(p, 1, gid);
  device const T* from_b = b + row_offset(p, 2, gid);
  MPSX_EACH_LANE(T, i, gid.x, p.size[0]) {
    const C ma = C(element(from_a, i * SA)), mb = C(element(from_b, i * SB));
    const C va = s.inlined & 2 ? scalar.c : ma, vb = s.inlined & 4 ? scalar.c : mb;
    set_element(to, i, R(Op::template apply<C>(va, vb, scalar)));
  }
}
template <typename T, typename R, typename Op>
kernel void binary_strided(device R* out [[buffer(0)]], device const T* a [[buffer(1)]],
                           device const T* b [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                           constant ScalarParams& s [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  const Scalars<C> scalar = scalars<C>(s);
  const C ma = C(a[grid_offset(p, 1, gid)]), mb = C(b[grid_offset(p, 2, gid)]);
  const C va = s.inlined & 2 ? scalar.c : ma, vb = s.inlined & 4 ? scalar.c : mb;
  out[grid_offset(p, 0, gid)] = R(Op::template apply<C>(va, vb, scalar));
}

// Three operands; the first may have a type of its own (where's condition).
template <typename A, typename T, typename Op>
kernel void ternary_dense(device T* out [[buffer(0)]], device const A* a [[buffer(1)]],
                          device const T* b [[buffer(2)]], device const T* c [[buffer(3)]],
                          constant StridedParams& p [[buffer(4)]], constant ScalarParams& s [[buffer(5)]],
                          uint3 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  typedef compute_t<A> CA;
  const Scalars<C> scalar = scalars<C>(s);
  device T* to = out + row_offset(p, 0, gid);
  device const A* from_a = a + row_offset(p, 1, gid);
  device const T* from_b = b + row_offset(p, 2, gid);
  device const T* from_c = c + row_offset(p, 3, gid);
  MPSX_EACH_LANE(T, i, gid.x, p.size[0]) {
    const C mb = C(element(from_b, i)), mc = C(element(from_c, i));
    const C vb = s.inlined & 4 ? scalar.c : mb, vc = s.inlined & 8 ? scalar.c : mc;
    set_element(to, i, T(Op::template apply<CA, C>(CA(element(from_a, i)), vb, vc, scalar)));
  }
}
template <typename A, typename T, typename Op>
kernel void ternary_strided(device T* out [[buffer(0)]], device const A* a [[buffer(1)]],
                            device const T* b [[buffer(2)]], device const T* c [[buffer(3)]],
                            constant StridedParams& p [[buffer(4)]], constant ScalarParams& s [[buffer(5)]],
                            uint3 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  typedef compute_t<A> CA;
  const Scalars<C> scalar = scalars<C>(s);
  const C mb = C(b[grid_offset(p, 2, gid)]), mc = C(c[grid_offset(p, 3, gid)]);
  const C vb = s.inlined & 4 ? scalar.c : mb, vc = s.inlined & 8 ? scalar.c : mc;
  out[grid_offset(p, 0, gid)] = T(Op::template apply<CA, C>(CA(a[grid_offset(p, 1, gid)]), vb, vc, scalar));
}

#define MPSX_RESULT_SAME(T) T
#define MPSX_RESULT_BOOL(T) bool
#define MPSX_UNARY_KERNELS(T, TAG, NAME, RESULT)                                                \
  MPSX_KERNEL(#NAME "_dense_" #TAG, unary_dense<T, MPSX_RESULT_##RESULT(T), NAME##_op>)         \
  MPSX_KERNEL(#NAME "_strided_" #TAG, unary_strided<T, MPSX_RESULT_##RESULT(T), NAME##_op>)
// Without a kernel for broadcast columns.
#define MPSX_PLAIN_BINARY_KERNELS(T, TAG, NAME, R)                       \
  MPSX_KERNEL(#NAME "_dense_" #TAG, binary_rows<T, R, NAME##_op, 1, 1>)  \
  MPSX_KERNEL(#NAME "_strided_" #TAG, binary_strided<T, R, NAME##_op>)
// Operators whose operands swap: of the columns, only the right one's.
#define MPSX_BINARY_KERNELS_SWAPS(T, TAG, NAME, RESULT)                       \
  MPSX_PLAIN_BINARY_KERNELS(T, TAG, NAME, MPSX_RESULT_##RESULT(T))            \
  MPSX_KERNEL(#NAME "_rows_10_" #TAG, binary_rows<T, MPSX_RESULT_##RESULT(T), NAME##_op, 1, 0>)
#define MPSX_BINARY_KERNELS_FIXED(T, TAG, NAME, RESULT)                       \
  MPSX_BINARY_KERNELS_SWAPS(T, TAG, NAME, RESULT)                             \
  MPSX_KERNEL(#NAME "_rows_01_" #TAG, binary_rows<T, MPSX_RESULT_##RESULT(T), NAME##_op, 0, 1>)
#define MPSX_TERNARY_KERNELS(T, TAG, NAME)                                  \
  MPSX_KERNEL(#NAME "_dense_" #TAG, ternary_dense<T, T, NAME##_op>)         \
  MPSX_KERNEL(#NAME "_strided_" #TAG, ternary_strided<T, T, NAME##_op>)
