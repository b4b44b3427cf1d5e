// Barriers, SIMD groups and threadgroup memory where every thread of a threadgroup runs: calls into the engine
// (src/driver/host/simt). Instead of simd.h in translation units with MPSX_SIMT.
#pragma once

// The engine, filled in when the library is loaded. The calls are functions of another file (simt_calls.h), and a compiler
// must neither double nor merge them, so that the return address tells places apart: convergent for clang; gcc has
// flags for that (tools/msl/compiler.py).
extern "C" {
extern __attribute__((visibility("hidden"))) const mpsx_simt_services* mpsx_simt;
#if defined(__clang__)
#define MPSX_CALL __attribute__((convergent, nomerge, not_tail_called, visibility("hidden")))
#else
#define MPSX_CALL __attribute__((visibility("hidden")))
#endif
MPSX_CALL void mpsx_simt_threadgroup_barrier(unsigned flags, const char* file, int line);
MPSX_CALL void mpsx_simt_simdgroup_barrier(unsigned flags, const char* file, int line);
MPSX_CALL mpsx_lanes* mpsx_simt_exchange(const void* value, unsigned bytes, unsigned* lane, const char* function,
                                         const char* file, int line);
MPSX_CALL int mpsx_simt_inactive_lane(unsigned source, const char* function, const char* file, int line);
MPSX_CALL void* mpsx_simt_threadgroup_variable(unsigned key, unsigned bytes, const char* name);
}

// The caller's place in the user's file, as two more arguments.
#define MPSX_PLACE const char *mpsx_file = __builtin_FILE(), int mpsx_line = __builtin_LINE()

namespace mpsx {
template <class V>
MPSX_FN V& threadgroup_variable(unsigned key, const char* name) {
  return *static_cast<V*>(mpsx_simt_threadgroup_variable(key, sizeof(V), name));
}

// The engine's memory is not what is checked: accesses to address spaces other than C++'s own are not instrumented, and
// to the processor this one is no different.
#if defined(__clang__)
#define MPSX_ENGINE_SPACE __attribute__((address_space(1)))
#else
#define MPSX_ENGINE_SPACE
#endif
template <class T>
MPSX_FN T of_engine(const T& place) {
  return *(const MPSX_ENGINE_SPACE T*)(&place);
}
template <unsigned long bytes>
struct words {
  typedef metal::conditional_t<bytes % 8 == 0, unsigned long,
                               metal::conditional_t<bytes % 4 == 0, unsigned,
                                                    metal::conditional_t<bytes % 2 == 0, unsigned short, unsigned char>>>
      word;
};
template <class T>
MPSX_FN T value_of_engine(const void* place) {
  typedef typename words<sizeof(T)>::word W;
  alignas(T) alignas(W) unsigned char own[sizeof(T)];
  for (unsigned i = 0; i < sizeof(T) / sizeof(W); ++i) {
    const W w = of_engine(static_cast<const W*>(place)[i]);
    __builtin_memcpy(own + i * sizeof w, &w, sizeof w);
  }
  return *reinterpret_cast<const T*>(own);
}

// One SIMD function's call: what the active lanes gave.
template <class T>
struct lanes_of {
  mpsx_lanes* all;
  unsigned lane;
  const char *function, *file;
  int line;
  MPSX_FN lanes_of(const T& mine, const char* name, const char* in, int at)
      : function(name), file(in), line(at) {
    static_assert(sizeof(T) <= MPSX_MAX_EXCHANGE_BYTES, "a SIMD function of this type");
    unsigned own;  // not `lane`: with its address the whole object would be in memory
    all = mpsx_simt_exchange(&mine, sizeof(T), &own, name, in, at);
    lane = own;
  }
  MPSX_FN unsigned met() const { return of_engine(all->active); }
  MPSX_FN bool active(unsigned i) const { return i < MPSX_SIMD_WIDTH && (met() >> i & 1u); }
  MPSX_FN T get(unsigned i) const { return value_of_engine<T>(of_engine(all->value[i])); }
  // The value of a lane that should be active.
  MPSX_FN T take(unsigned source) const {
    if (active(source)) return get(source);
    T nothing(get(lane));
    __builtin_memset(static_cast<void*>(&nothing), mpsx_simt_inactive_lane(source, function, file, line), sizeof nothing);
    return nothing;
  }
  // What is the same for all lanes is computed by the first that asks.
  template <class R, class F>
  MPSX_FN R shared(F compute) const {
    static_assert(sizeof(R) <= MPSX_MAX_EXCHANGE_BYTES, "a SIMD function of this type");
    if (!of_engine(all->memo_set)) {
      const R result = compute();
      __builtin_memcpy(static_cast<void*>(all->memo), &result, sizeof(R));
      all->memo_set = 1;
    }
    return value_of_engine<R>(all->memo);
  }
  // The lanes of `mask` folded, in order.
  template <class F>
  MPSX_FN T fold(unsigned mask, F f) const {
    T r = get(unsigned(__builtin_ctz(mask)));
    for (mask &= mask - 1; mask; mask &= mask - 1) r = T(f(r, get(unsigned(__builtin_ctz(mask)))));
    return r;
  }
};

// A vector instead of a swizzle, and everything else as it is.
template <class X, bool = metal::mpsx_is_vector<X>>
struct lane_value {
  typedef metal::mpsx_plain<X> type;
};
template <class X>
struct lane_value<X, false> {
  typedef X type;
};
template <class X>
using lane_value_t = typename lane_value<X>::type;
}  // namespace mpsx

#include "simt_barrier.h"
#include "simt_simd.h"
#include "simt_quad.h"
#include "simt_matrix.h"
