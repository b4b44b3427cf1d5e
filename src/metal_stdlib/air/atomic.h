// AIR's atomic intrinsics. All operations are relaxed: the memory order, the scope and the volatile flag are ignored.
#pragma once

#define MPSX_AIR_ATOMIC_ACCESS(TAG, T, ...)                                                              \
  MPSX_AIR mpsx::air_t<T> mpsx_air_atomic_load_##TAG(metal::atomic<T>* p) {                              \
    return mpsx::air_pass<T>(metal::atomic_load_explicit(p, metal::memory_order_relaxed));               \
  }                                                                                                      \
  MPSX_AIR void mpsx_air_atomic_store_##TAG(metal::atomic<T>* p, mpsx::air_t<T> v) {                     \
    metal::atomic_store_explicit(p, mpsx::air_get<T>(v), metal::memory_order_relaxed);                   \
  }                                                                                                      \
  MPSX_AIR mpsx::air_t<T> mpsx_air_atomic_xchg_##TAG(metal::atomic<T>* p, mpsx::air_t<T> v) {            \
    return mpsx::air_pass<T>(                                                                            \
        metal::atomic_exchange_explicit(p, mpsx::air_get<T>(v), metal::memory_order_relaxed));           \
  }
MPSX_AIR_ATOMIC_ACCESS(s32, int)
MPSX_AIR_ATOMIC_ACCESS(u32, metal::uint)
MPSX_AIR_ATOMIC_ACCESS(s64, long)
MPSX_AIR_ATOMIC_ACCESS(u64, metal::ulong)
MPSX_AIR_ATOMIC_ACCESS(f32, float)

// If *p has the same bits as *expected, stores `desired` in *p. Stores the old value of *p in *expected and returns it.
#define MPSX_AIR_COMPARE_EXCHANGE(TAG, T, BITS)                                                                \
  MPSX_AIR mpsx::air_t<T> mpsx_air_atomic_cmpxchg_weak_##TAG(BITS* p, BITS* expected, mpsx::air_t<T> desired) { \
    BITS was = *expected;                                                                                      \
    const BITS next = __builtin_bit_cast(BITS, mpsx::air_get<T>(desired));                                     \
    __atomic_compare_exchange_n(p, &was, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);                     \
    *expected = was;                                                                                           \
    return mpsx::air_pass<T>(__builtin_bit_cast(T, was));                                                      \
  }
MPSX_AIR_COMPARE_EXCHANGE(s32, int, metal::uint)
MPSX_AIR_COMPARE_EXCHANGE(u32, metal::uint, metal::uint)
MPSX_AIR_COMPARE_EXCHANGE(s64, long, metal::ulong)
MPSX_AIR_COMPARE_EXCHANGE(u64, metal::ulong, metal::ulong)
MPSX_AIR_COMPARE_EXCHANGE(f32, float, metal::uint)

#define MPSX_AIR_FETCH(TAG, T, OP)                                                                       \
  MPSX_AIR mpsx::air_t<T> mpsx_air_atomic_##OP##_##TAG(metal::atomic<T>* p, mpsx::air_t<T> v) {          \
    return mpsx::air_pass<T>(                                                                            \
        metal::atomic_fetch_##OP##_explicit(p, mpsx::air_get<T>(v), metal::memory_order_relaxed));       \
  }
#define MPSX_AIR_FETCHES(TAG, T)                                                                      \
  MPSX_AIR_FETCH(TAG, T, add)                                                                         \
  MPSX_AIR_FETCH(TAG, T, sub)                                                                         \
  MPSX_AIR_FETCH(TAG, T, min)                                                                         \
  MPSX_AIR_FETCH(TAG, T, max)
#define MPSX_AIR_FETCH_BITS(TAG, T) \
  MPSX_AIR_FETCH(TAG, T, and)       \
  MPSX_AIR_FETCH(TAG, T, or)        \
  MPSX_AIR_FETCH(TAG, T, xor)
MPSX_AIR_FETCHES(s32, int)
MPSX_AIR_FETCHES(u32, metal::uint)
MPSX_AIR_FETCHES(s64, long)
MPSX_AIR_FETCHES(u64, metal::ulong)
MPSX_AIR_FETCHES(f32, float)
MPSX_AIR_FETCH_BITS(s32, int)
MPSX_AIR_FETCH_BITS(u32, metal::uint)
MPSX_AIR_FETCH_BITS(s64, long)
MPSX_AIR_FETCH_BITS(u64, metal::ulong)
MPSX_AIR void mpsx_air_atomic_fence() {
  metal::atomic_thread_fence(metal::mem_flags::mem_device, metal::memory_order_seq_cst);
}
#undef MPSX_AIR_FETCH_BITS
#undef MPSX_AIR_FETCHES
#undef MPSX_AIR_FETCH
#undef MPSX_AIR_COMPARE_EXCHANGE
#undef MPSX_AIR_ATOMIC_ACCESS
