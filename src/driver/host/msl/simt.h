// Barriers, SIMD groups and threadgroup memory where every thread of a threadgroup runs: calls into the engine
// (src/driver/host/simt). Instead of simd.h in translation units with MPSX_SIMT.
#pragma once

// The engine, filled in when the library is loaded. The calls are functions of another file (simt_calls.h) and
// convergent: a compiler must neither double nor merge them, so that the return address tells places apart.
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
    all = mpsx_simt_exchange(&mine, sizeof(T), &lane, name, in, at);
  }
  MPSX_FN bool active(unsigned i) const { return i < MPSX_SIMD_WIDTH && (all->active >> i & 1u); }
  MPSX_FN const T& get(unsigned i) const { return *static_cast<const T*>(all->value[i]); }
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
    if (!all->memo_set) {
      const R result = compute();
      __builtin_memcpy(static_cast<void*>(all->memo), &result, sizeof(R));
      all->memo_set = 1;
    }
    return *reinterpret_cast<const R*>(all->memo);
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
