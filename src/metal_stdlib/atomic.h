// <metal_atomic>: relaxed atomic operations. Floating-point operations use compare-and-exchange loops.
#pragma once

namespace metal {
enum memory_order {
  memory_order_relaxed,
  memory_order_acquire,
  memory_order_release,
  memory_order_acq_rel,
  memory_order_seq_cst
};
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };
// Has the size and alignment of T. Only the atomic functions may access `value`.
template <class T>
struct atomic {
  T value;
};
typedef atomic<int> atomic_int;
typedef atomic<uint> atomic_uint;
typedef atomic<ulong> atomic_ulong;
typedef atomic<long> atomic_long;
typedef atomic<float> atomic_float;
typedef atomic<bool> atomic_bool;

// The value type of A, which is atomic<T> or volatile atomic<T>. Metal accepts pointers to both.
template <class A>
using mpsx_atomic_value = remove_cv_t<remove_reference_t<decltype(declval<A&>().value)>>;
template <class A, class T = mpsx_atomic_value<A>>
MPSX_FN T atomic_load_explicit(A* p, memory_order) {
  T r;
  __atomic_load(&p->value, &r, __ATOMIC_RELAXED);
  return r;
}
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN void atomic_store_explicit(A* p, V v, memory_order) {
  T x = T(v);
  __atomic_store(&p->value, &x, __ATOMIC_RELAXED);
}
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN T atomic_exchange_explicit(A* p, V v, memory_order) {
  T x = T(v), r;
  __atomic_exchange(&p->value, &x, &r, __ATOMIC_RELAXED);
  return r;
}
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN bool atomic_compare_exchange_weak_explicit(A* p, mpsx_not_deduced<T>* expected, V desired, memory_order,
                                                   memory_order) {
  T x = T(desired);
  return __atomic_compare_exchange(&p->value, expected, &x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
// Atomically replaces the value with f(value) and returns the old value.
template <class A, class F, class T = mpsx_atomic_value<A>>
MPSX_FN T mpsx_atomic_update(A* p, F f) {
  T old, next;
  __atomic_load(&p->value, &old, __ATOMIC_RELAXED);
  do {
    next = f(old);
  } while (!__atomic_compare_exchange(&p->value, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN T atomic_fetch_add_explicit(A* p, V v, memory_order) {
  const T x = T(v);
  if constexpr (is_integral_v<T>)
    return __atomic_fetch_add(&p->value, x, __ATOMIC_RELAXED);
  else
    return mpsx_atomic_update(p, [x](T old) { return T(old + x); });
}
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN T atomic_fetch_sub_explicit(A* p, V v, memory_order) {
  const T x = T(v);
  if constexpr (is_integral_v<T>)
    return __atomic_fetch_sub(&p->value, x, __ATOMIC_RELAXED);
  else
    return mpsx_atomic_update(p, [x](T old) { return T(old - x); });
}
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN T atomic_fetch_min_explicit(A* p, V v, memory_order) {
  const T x = T(v);
  return mpsx_atomic_update(p, [x](T old) { return min(old, x); });
}
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN T atomic_fetch_max_explicit(A* p, V v, memory_order) {
  const T x = T(v);
  return mpsx_atomic_update(p, [x](T old) { return max(old, x); });
}
// 64-bit atomics support only min and max, which return nothing (MSL specification 3.2, section 6.16.4.6).
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN void atomic_min_explicit(A* p, V v, memory_order order) {
  atomic_fetch_min_explicit(p, v, order);
}
template <class A, class V, class T = mpsx_atomic_value<A>>
MPSX_FN void atomic_max_explicit(A* p, V v, memory_order order) {
  atomic_fetch_max_explicit(p, v, order);
}
#define MPSX_ATOMIC_BITS(NAME)                                              \
  template <class A, class V, class T = mpsx_atomic_value<A>>               \
  MPSX_FN T atomic_fetch_##NAME##_explicit(A* p, V v, memory_order) {       \
    return __atomic_fetch_##NAME(&p->value, T(v), __ATOMIC_RELAXED);        \
  }
MPSX_ATOMIC_BITS(and)
MPSX_ATOMIC_BITS(or)
MPSX_ATOMIC_BITS(xor)
#undef MPSX_ATOMIC_BITS
}  // namespace metal
