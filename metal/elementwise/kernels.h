// The skeletons that every elementwise operator is an instance of. An operator is a struct with
// `template <typename C> static … apply(C x, …, Scalars<C> s)`.
#pragma once

#include "elementwise/elements.h"
#include "elementwise/scalars.h"
#include "lib/instantiate.h"
#include "lib/index.h"

// What an operator makes of one element; unary.metal has the operators that need not compute in float.
template <typename Op, typename T, typename R> struct UnaryOf {
  static R apply(T x, constant ScalarParams& s) {
    typedef compute_t<T> C;
    return R(Op::template apply<C>(C(x), scalars<C>(s)));
  }
};

// What an operator makes of two elements; binary.metal has the one that need not compute in float.
template <typename Op, typename T, typename R> struct BinaryOf {
  static R apply(T a, T b, constant ScalarParams& s) {
    typedef compute_t<T> C;
    return R(Op::template apply<C>(C(a), C(b), scalars<C>(s)));
  }
};

template <typename T, typename R, typename Op>
kernel void unary_dense(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                        constant ScalarParams& s [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  MPSX_EACH_LANE(T, i, tid, s.count) set_element(out, i, UnaryOf<Op, T, R>::apply(element(x, i), s));
}

template <typename T, typename R, typename Op>
kernel void unary_rows(device R* out [[buffer(0)]], device const T* x [[buffer(1)]],
                       constant ScalarParams& s [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                       uint3 gid [[thread_position_in_grid]]) {
  const T value = x[row_offset(p, 1, gid) + long(gid.x) * p.stride[1][0]];
  out[row_offset(p, 0, gid) + long(gid.x) * p.stride[0][0]] = UnaryOf<Op, T, R>::apply(value, s);
}

// Rows along which the input is the same, and the output's stride is 1.
template <typename T, typename Op>
kernel void unary_repeated(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                           constant ScalarParams& s [[buffer(2)]], constant StridedParams& p [[buffer(3)]],
                           uint3 gid [[thread_position_in_grid]]) {
  (out + row_offset(p, 0, gid))[gid.x] = UnaryOf<Op, T, T>::apply(x[row_offset(p, 1, gid)], s);
}

template <typename T, typename R, typename Op>
kernel void binary_dense(device R* out [[buffer(0)]], device const T* a [[buffer(1)]],
                         device const T* b [[buffer(2)]], constant ScalarParams& s [[buffer(3)]],
                         uint tid [[thread_position_in_grid]]) {
  MPSX_EACH_LANE(T, i, tid, s.count) set_element(out, i, BinaryOf<Op, T, R>::apply(element(a, i), element(b, i), s));
}

// One operand is a scalar argument, in the compute type: kept as exact as PyTorch keeps it.
template <typename T, typename R, typename Op>
kernel void binary_right(device R* out [[buffer(0)]], device const T* a [[buffer(1)]],
                         constant ScalarParams& s [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  MPSX_EACH_LANE(T, i, tid, s.count)
  set_element(out, i, R(Op::template apply<C>(C(element(a, i)), scalars<C>(s).c, scalars<C>(s))));
}
template <typename T, typename R, typename Op>
kernel void binary_left(device R* out [[buffer(0)]], device const T* b [[buffer(1)]],
                        constant ScalarParams& s [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  MPSX_EACH_LANE(T, i, tid, s.count)
  set_element(out, i, R(Op::template apply<C>(scalars<C>(s).c, C(element(b, i)), scalars<C>(s))));
}

// Rows: the output's innermost stride is 1 where SA or SB is a constant. Any strides: an operand may be inlined; memory
// is there for it to be read, which it is without a condition, or nothing would be vectorised.
template <typename T, typename R, typename Op, int SA, int SB>
kernel void binary_rows(device R* out [[buffer(0)]], device const T* a [[buffer(1)]],
                        device const T* b [[buffer(2)]], constant ScalarParams& s [[buffer(3)]],
                        constant StridedParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  device const T* pa = a + row_offset(p, 1, gid);
  device const T* pb = b + row_offset(p, 2, gid);
  set_element(out + row_offset(p, 0, gid), gid.x,
              BinaryOf<Op, T, R>::apply(element(pa, gid.x * SA), element(pb, gid.x * SB), s));
}
template <typename T, typename R, typename Op>
kernel void binary_any(device R* out [[buffer(0)]], device const T* a [[buffer(1)]],
                       device const T* b [[buffer(2)]], constant ScalarParams& s [[buffer(3)]],
                       constant StridedParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  const C inlined = scalars<C>(s).c;
  const C ma = C(a[row_offset(p, 1, gid) + long(gid.x) * p.stride[1][0]]);
  const C mb = C(b[row_offset(p, 2, gid) + long(gid.x) * p.stride[2][0]]);
  const C va = s.inlined & 2 ? inlined : ma, vb = s.inlined & 4 ? inlined : mb;
  out[row_offset(p, 0, gid) + long(gid.x) * p.stride[0][0]] = R(Op::template apply<C>(va, vb, scalars<C>(s)));
}

// Three operands; the first may have a type of its own (where's condition).
template <typename A, typename T, typename Op>
kernel void ternary_dense(device T* out [[buffer(0)]], device const A* a [[buffer(1)]],
                          device const T* b [[buffer(2)]], device const T* c [[buffer(3)]],
                          constant ScalarParams& s [[buffer(4)]], uint tid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  typedef compute_t<A> CA;
  MPSX_EACH_LANE(T, i, tid, s.count)
  set_element(out, i, T(Op::template apply<CA, C>(CA(element(a, i)), C(element(b, i)), C(element(c, i)), scalars<C>(s))));
}
template <typename A, typename T, typename Op>
kernel void ternary_any(device T* out [[buffer(0)]], device const A* a [[buffer(1)]],
                        device const T* b [[buffer(2)]], device const T* c [[buffer(3)]],
                        constant ScalarParams& s [[buffer(4)]], constant StridedParams& p [[buffer(5)]],
                        uint3 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  typedef compute_t<A> CA;
  const CA va = CA(a[row_offset(p, 1, gid) + long(gid.x) * p.stride[1][0]]);
  const C mb = C(b[row_offset(p, 2, gid) + long(gid.x) * p.stride[2][0]]);
  const C mc = C(c[row_offset(p, 3, gid) + long(gid.x) * p.stride[3][0]]);
  const C vb = s.inlined & 4 ? scalars<C>(s).c : mb, vc = s.inlined & 8 ? scalars<C>(s).c : mc;
  out[row_offset(p, 0, gid) + long(gid.x) * p.stride[0][0]] = T(Op::template apply<CA, C>(va, vb, vc, scalars<C>(s)));
}

// On a CPU, operators with a form that is quicker and right for all but rare arguments: that one, in blocks that have none.
#if !MPSX_VECTOR_BYTES
template <typename Op> struct UsualOf;  // static bool is_rare(float…); static float apply(float…)

template <typename T, typename Op>
kernel void unary_blocks(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                         constant ScalarParams& s [[buffer(2)]], uint tid [[thread_position_in_grid]]) {
  const uint first = tid * kBlock, last = min(first + kBlock, s.count);
  uint rare = 0;
  MPSX_REDUCE(| : rare)
  for (uint i = first; i < last; ++i) rare |= uint(UsualOf<Op>::is_rare(float(x[i])));
  if (rare) {
    MPSX_VECTORIZE
    for (uint i = first; i < last; ++i) out[i] = UnaryOf<Op, T, T>::apply(x[i], s);
  } else {
    MPSX_VECTORIZE
    for (uint i = first; i < last; ++i) out[i] = T(UsualOf<Op>::apply(float(x[i])));
  }
}
template <typename T, typename Op>
kernel void binary_blocks(device T* out [[buffer(0)]], device const T* a [[buffer(1)]],
                          device const T* b [[buffer(2)]], constant ScalarParams& s [[buffer(3)]],
                          uint tid [[thread_position_in_grid]]) {
  const uint first = tid * kBlock, last = min(first + kBlock, s.count);
  uint rare = 0;
  MPSX_REDUCE(| : rare)
  for (uint i = first; i < last; ++i) rare |= uint(UsualOf<Op>::is_rare(float(a[i]), float(b[i])));
  if (rare) {
    MPSX_VECTORIZE
    for (uint i = first; i < last; ++i) out[i] = BinaryOf<Op, T, T>::apply(a[i], b[i], s);
  } else {
    MPSX_VECTORIZE
    for (uint i = first; i < last; ++i) out[i] = T(UsualOf<Op>::apply(float(a[i]), float(b[i])));
  }
}
#define MPSX_BLOCK_KERNELS(T, TAG, NAME, OPERANDS) MPSX_KERNEL(#NAME "_blocks_" #TAG, OPERANDS##_blocks<T, NAME##_op>)
#endif

#define MPSX_RESULT_SAME(T) T
#define MPSX_RESULT_BOOL(T) bool
#define MPSX_UNARY_KERNELS(T, TAG, NAME, RESULT)                                                \
  MPSX_KERNEL(#NAME "_dense_" #TAG, unary_dense<T, MPSX_RESULT_##RESULT(T), NAME##_op>)         \
  MPSX_KERNEL(#NAME "_any_" #TAG, unary_rows<T, MPSX_RESULT_##RESULT(T), NAME##_op>)
#define MPSX_BINARY_KERNELS(T, TAG, NAME, RESULT)                                               \
  MPSX_KERNEL(#NAME "_dense_" #TAG, binary_dense<T, MPSX_RESULT_##RESULT(T), NAME##_op>)        \
  MPSX_KERNEL(#NAME "_right_" #TAG, binary_right<T, MPSX_RESULT_##RESULT(T), NAME##_op>)        \
  MPSX_KERNEL(#NAME "_rows_11_" #TAG, binary_rows<T, MPSX_RESULT_##RESULT(T), NAME##_op, 1, 1>) \
  MPSX_KERNEL(#NAME "_rows_10_" #TAG, binary_rows<T, MPSX_RESULT_##RESULT(T), NAME##_op, 1, 0>) \
  MPSX_KERNEL(#NAME "_any_" #TAG, binary_any<T, MPSX_RESULT_##RESULT(T), NAME##_op>)
// Operators whose operands do not swap need the mirror images too.
#define MPSX_BINARY_LEFT_KERNELS(T, TAG, NAME, RESULT)                                          \
  MPSX_KERNEL(#NAME "_left_" #TAG, binary_left<T, MPSX_RESULT_##RESULT(T), NAME##_op>)          \
  MPSX_KERNEL(#NAME "_rows_01_" #TAG, binary_rows<T, MPSX_RESULT_##RESULT(T), NAME##_op, 0, 1>)
