// Instantiates the kernels for every row of foreach.def, and kernels for lerp, zero and copy. List 0 is the output.
// p.input is the index of the first input list: 0 if the operator is in place, otherwise 1.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "optim/lists.h"

template <typename Op, uint N, typename T>
inline void unary(VecLoop<N, false> d, device T* out, device const T* x) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) {
    VecBatch<T, N> v = load_vecs(d, x, 1);
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) v.at[i] = T(Op::apply(float(v.at[i])));
    store_vecs(d, out, 1, v);
  }
}
template <typename T, typename Op>
kernel void foreach_unary(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_LIST_POSITION) {
  const ListChunk chunk = list_chunk(p, group);
  device T* out = MPSX_LIST(T, 0);
  device const T* x = MPSX_LIST(const T, p.input);
  MPSX_GROUP_VEC_LOOPS(T, chunk.count, unary<Op>, out, x);
}

// Processes a chunk whose scalars y and s are the same for all elements.
template <typename Op, uint N, typename T>
inline void scalar(VecLoop<N, false> d, device T* out, device const T* x, float y, float s) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) {
    VecBatch<T, N> v = load_vecs(d, x, 1);
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) v.at[i] = T(Op::apply(float(v.at[i]), y, s));
    store_vecs(d, out, 1, v);
  }
}
template <typename T, typename Op>
kernel void foreach_scalar(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_LIST_POSITION) {
  const ListChunk chunk = list_chunk(p, group);
  device T* out = MPSX_LIST(T, 0);
  device const T* x = MPSX_LIST(const T, p.input);
  const float y = p.scalar[chunk.tensor];
  MPSX_GROUP_VEC_LOOPS(T, chunk.count, scalar<Op>, out, x, y, 1.0f);
}
// The second operand is a one-element tensor, bound to buffer 29.
template <typename T, typename Op>
kernel void foreach_value(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_LIST_POSITION) {
  const ListChunk chunk = list_chunk(p, group);
  device T* out = MPSX_LIST(T, 0);
  device const T* x = MPSX_LIST(const T, p.input);
  const float y = float(*reinterpret_cast<device const T*>(b29)), s = p.scalar[chunk.tensor];
  MPSX_GROUP_VEC_LOOPS(T, chunk.count, scalar<Op>, out, x, y, s);
}

template <typename Op, uint N, typename T>
inline void list(VecLoop<N, false> d, device T* out, device const T* x, device const T* y, float s) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) {
    VecBatch<T, N> v = load_vecs(d, x, 1);
    const VecBatch<T, N> w = load_vecs(d, y, 1);
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) v.at[i] = T(Op::apply(float(v.at[i]), float(w.at[i]), s));
    store_vecs(d, out, 1, v);
  }
}
template <typename T, typename Op>
kernel void foreach_list(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_LIST_POSITION) {
  const ListChunk chunk = list_chunk(p, group);
  device T* out = MPSX_LIST(T, 0);
  device const T* x = MPSX_LIST(const T, p.input);
  device const T* y = MPSX_LIST(const T, p.input + 1);
  const float s = p.scalar[chunk.tensor];
  MPSX_GROUP_VEC_LOOPS(T, chunk.count, list<Op>, out, x, y, s);
}

template <typename Op, uint N, typename T>
inline void pointwise(VecLoop<N, false> d, device T* out, device const T* x, device const T* y, device const T* z,
                      float s) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) {
    VecBatch<T, N> v = load_vecs(d, x, 1);
    const VecBatch<T, N> w = load_vecs(d, y, 1), u = load_vecs(d, z, 1);
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i)
      v.at[i] = T(Op::apply(float(v.at[i]), float(w.at[i]), float(u.at[i]), s));
    store_vecs(d, out, 1, v);
  }
}
template <typename T, typename Op>
kernel void foreach_pointwise(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_LIST_POSITION) {
  const ListChunk chunk = list_chunk(p, group);
  device T* out = MPSX_LIST(T, 0);
  device const T* x = MPSX_LIST(const T, p.input);
  device const T* y = MPSX_LIST(const T, p.input + 1);
  device const T* z = MPSX_LIST(const T, p.input + 2);
  const float s = p.scalar[chunk.tensor];
  MPSX_GROUP_VEC_LOOPS(T, chunk.count, pointwise<Op>, out, x, y, z, s);
}

// Interpolates from the nearer endpoint, so that a weight of 1 yields exactly y. Uses fma like PyTorch.
inline float interpolate(float x, float y, float weight) {
  return fabs(weight) < 0.5f ? fma(weight, y - x, x) : fma(weight - 1.0f, y - x, y);
}
struct Lerp {
  static float apply(float x, float y, float s) { return interpolate(x, y, s); }
  static float apply(float x, float y, float z, float) { return interpolate(x, y, z); }
};
struct Zero {
  static float apply(float) { return 0.0f; }
};
struct Copy {
  static float apply(float x) { return x; }
};

#define MPSX_FOREACH_UNARY(NAME, ...)                   \
  struct NAME##_op {                                    \
    static float apply(float x) { return __VA_ARGS__; } \
  };                                                    \
  MPSX_FOR_FLOAT(UNARY_KERNEL, NAME)
#define UNARY_KERNEL(T, TAG, NAME) MPSX_KERNEL("foreach_" #NAME "_" #TAG, foreach_unary<T, NAME##_op>)
#define MPSX_FOREACH_BINARY(NAME, ...)                                             \
  struct NAME##_op {                                                               \
    static float apply(float x, float y, float s) { return (void)s, __VA_ARGS__; } \
  };                                                                               \
  MPSX_FOR_FLOAT(BINARY_KERNELS, NAME)
#define MPSX_FOREACH_SCALED(NAME, ...) MPSX_FOREACH_BINARY(NAME, __VA_ARGS__)
#define BINARY_KERNELS(T, TAG, NAME)                                          \
  MPSX_KERNEL("foreach_" #NAME "_scalar_" #TAG, foreach_scalar<T, NAME##_op>) \
  MPSX_KERNEL("foreach_" #NAME "_list_" #TAG, foreach_list<T, NAME##_op>)
#define MPSX_FOREACH_POINTWISE(NAME, ...)                                          \
  struct NAME##_op {                                                               \
    static float apply(float x, float y, float z, float s) { return __VA_ARGS__; } \
  };                                                                               \
  MPSX_FOR_FLOAT(POINTWISE_KERNEL, NAME)
#define POINTWISE_KERNEL(T, TAG, NAME) MPSX_KERNEL("foreach_" #NAME "_" #TAG, foreach_pointwise<T, NAME##_op>)
#include "optim/foreach.def"

#define OTHER_KERNELS(T, TAG, ...)                                   \
  MPSX_KERNEL("foreach_lerp_scalar_" #TAG, foreach_list<T, Lerp>)    \
  MPSX_KERNEL("foreach_lerp_list_" #TAG, foreach_pointwise<T, Lerp>) \
  MPSX_KERNEL("foreach_add_value_" #TAG, foreach_value<T, add_op>)   \
  MPSX_KERNEL("foreach_mul_value_" #TAG, foreach_value<T, mul_op>)   \
  MPSX_KERNEL("foreach_div_value_" #TAG, foreach_value<T, div_op>)   \
  MPSX_KERNEL("foreach_zero_" #TAG, foreach_unary<T, Zero>)          \
  MPSX_KERNEL("foreach_copy_" #TAG, foreach_unary<T, Copy>)
MPSX_FOR_FLOAT(OTHER_KERNELS)
