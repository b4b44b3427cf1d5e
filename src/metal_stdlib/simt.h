// Barriers, SIMD groups and threadgroup memory for SIMT kernels, implemented as calls into the engine
// (src/driver/host/simt). If MPSX_SIMT is defined, this file is included instead of simd.h.
#pragma once

// The engine's functions. Loading the library sets this pointer. Kernels call them through functions in a separate file
// (simt_calls.h). The compiler must neither duplicate nor merge these calls, because their return address identifies
// the call site. clang provides the attribute `convergent` for this. gcc needs compiler flags
// (python/mpsx/msl/compiler.py).
extern "C" {
extern __attribute__((visibility("hidden"))) const mpsx_simt_services* mpsx_simt;
#if defined(__clang__)
#define MPSX_CALL __attribute__((convergent, nomerge, not_tail_called, visibility("hidden")))
#else
#define MPSX_CALL __attribute__((visibility("hidden")))
#endif
MPSX_CALL void mpsx_simt_threadgroup_barrier(unsigned flags, const char* file, int line);
MPSX_CALL void mpsx_simt_simdgroup_barrier(unsigned flags, const char* file, int line);
// Values of up to 16 bytes are passed in registers, and larger values by address.
MPSX_CALL mpsx_exchanged mpsx_simt_exchange(unsigned long long low, unsigned long long high, unsigned bytes,
                                            const char* function, const char* file, int line);
MPSX_CALL mpsx_exchanged mpsx_simt_exchange_long(const void* value, unsigned bytes, const char* function,
                                                 const char* file, int line);
MPSX_CALL int mpsx_simt_inactive_lane(unsigned source, const char* function, const char* file, int line);
MPSX_CALL void* mpsx_simt_threadgroup_variable(unsigned key, unsigned bytes, const char* name);
MPSX_CALL const mpsx_thread* mpsx_simt_current_thread();
MPSX_CALL unsigned mpsx_simt_layout_seed();
MPSX_CALL const void* const* mpsx_simt_collective(const void* value, unsigned simdgroups, const char* function,
                                                  const char* file, int line);
MPSX_CALL void mpsx_simt_incomplete_scope(unsigned active, const char* function, const char* file, int line);
MPSX_CALL void mpsx_simt_fault_site(const mpsx_site* site);
MPSX_CALL void mpsx_simt_allow_races(const volatile void* p);
MPSX_CALL void mpsx_simt_device_fence();
}

// The caller's file and line, as two parameters with default arguments.
#define MPSX_INLINE __attribute__((always_inline))
#define MPSX_CALL_SITE const char *mpsx_file = __builtin_FILE(), int mpsx_line = __builtin_LINE()

namespace mpsx {
template <class V, unsigned KEY>
MPSX_FN V& threadgroup_variable(const char* name) {
  return *static_cast<V*>(mpsx_simt_threadgroup_variable(KEY, sizeof(V), name));
}

// The engine's memory is accessed through a separate address space, which clang does not instrument.
#if defined(__clang__)
#define MPSX_UNCHECKED_SPACE __attribute__((address_space(1)))
#else
#define MPSX_UNCHECKED_SPACE
#endif
// Declares the arguments of an entry point that runs one thread.
#define MPSX_SIMT_ENTRY                                                                                   \
  void* const MPSX_UNCHECKED_SPACE* const mpsx_args = (void* const MPSX_UNCHECKED_SPACE*)mpsx_plain_args; \
  const MPSX_UNCHECKED_SPACE mpsx_launch* const mpsx_this_launch =                                        \
      (const MPSX_UNCHECKED_SPACE mpsx_launch*)mpsx_plain_launch;                                         \
  const MPSX_UNCHECKED_SPACE mpsx_thread* const mpsx_this_thread =                                        \
      (const MPSX_UNCHECKED_SPACE mpsx_thread*)mpsx_plain_thread;                                         \
  const MPSX_UNCHECKED_SPACE mpsx_threadgroup* const mpsx_this_group =                                    \
      (const MPSX_UNCHECKED_SPACE mpsx_threadgroup*)mpsx_this_thread->group;                              \
  (void)mpsx_args, (void)mpsx_this_launch, (void)mpsx_this_thread, (void)mpsx_this_group;
template <class T>
using unchecked_word = metal::conditional_t<sizeof(T) % 4 == 0, unsigned, unsigned char>;
template <class T>
MPSX_FN void unchecked_load(T& to, const void* from) {
  typedef unchecked_word<T> W;
  W words[sizeof(T) / sizeof(W)];
  for (unsigned i = 0; i < sizeof(T) / sizeof(W); ++i) words[i] = ((const MPSX_UNCHECKED_SPACE W*)from)[i];
  __builtin_memcpy(static_cast<void*>(&to), words, sizeof(T));
}
template <class T>
MPSX_FN void unchecked_store(void* to, const T& from) {
  typedef unchecked_word<T> W;
  W words[sizeof(T) / sizeof(W)];
  __builtin_memcpy(words, static_cast<const void*>(&from), sizeof(T));
  for (unsigned i = 0; i < sizeof(T) / sizeof(W); ++i) ((MPSX_UNCHECKED_SPACE W*)to)[i] = words[i];
}

// One call of a SIMD-group function, with the value that each active lane passes.
template <class T>
struct lanes_of {
  mpsx_lanes* all;
  unsigned active, lane;  // bit mask of the active lanes; this lane
  T mine;
  const char *function, *file;
  int line;
  MPSX_FN lanes_of(const T& v, const char* name, const char* in, int at) : mine(v), function(name), file(in), line(at) {
    static_assert(sizeof(T) <= MPSX_MAX_EXCHANGE_BYTES, "a SIMD function of this type");
    mpsx_exchanged exchanged;
    if constexpr (sizeof(T) <= 16) {
      unsigned long long words[2] = {0, 0};
      __builtin_memcpy(words, static_cast<const void*>(&v), sizeof(T));
      exchanged = mpsx_simt_exchange(words[0], words[1], sizeof(T), name, in, at);
    } else {
      exchanged = mpsx_simt_exchange_long(&v, sizeof(T), name, in, at);
    }
    all = exchanged.all, active = exchanged.active, lane = exchanged.lane;
  }
  // Returns the value of active lane i.
  MPSX_FN T get(unsigned i) const {
    T r(mine);
    unchecked_load(r, ((void* const MPSX_UNCHECKED_SPACE*)all->value)[i]);
    return r;
  }
  // Returns the value of lane `source`. It is an error if that lane is inactive.
  MPSX_FN T take(unsigned source) const {
    if (source < MPSX_SIMD_WIDTH && (active >> source & 1u)) return get(source);
    T nothing(mine);
    __builtin_memset(static_cast<void*>(&nothing), mpsx_simt_inactive_lane(source, function, file, line),
                     sizeof nothing);
    return nothing;
  }
  // Returns take(source), or `outside` if the SIMD group has no such lane.
  MPSX_FN T take(unsigned source, const T& outside) const {
    return source >= MPSX_SIMD_WIDTH ? outside : take(source);
  }
  // Computes a value only in the first lane and returns it in every lane.
  template <class R, class F>
  MPSX_FN R shared(F compute) const {
    static_assert(sizeof(R) <= MPSX_MAX_EXCHANGE_BYTES, "a SIMD function of this type");
    MPSX_UNCHECKED_SPACE unsigned* const set = (MPSX_UNCHECKED_SPACE unsigned*)&all->memo_set;
    if (!*set) {
      unchecked_store<R>(all->memo, compute());
      *set = 1;
    }
    alignas(R) unsigned char bytes[sizeof(R)];
    R& result = *reinterpret_cast<R*>(bytes);
    unchecked_load(result, all->memo);
    return result;
  }
  // Reduces the lanes of `mask` in order. The result is undefined if the mask is empty.
  template <class F>
  MPSX_FN T fold(unsigned mask, F f) const {
    if (!mask) return mine;
    T r = get(unsigned(__builtin_ctz(mask)));
    for (mask &= mask - 1; mask; mask &= mask - 1) r = T(f(r, get(unsigned(__builtin_ctz(mask)))));
    return r;
  }
  // Reduces the active lanes.
  template <class F>
  MPSX_FN T fold_active(F f) const {
    return shared<T>([&]() MPSX_INLINE { return fold(active, f); });
  }
  // Bit mask of the active lanes with a nonzero value.
  MPSX_FN unsigned votes() const {
    return shared<unsigned>([&]() MPSX_INLINE {
      unsigned found = 0;
      for (unsigned m = active; m; m &= m - 1)
        if (get(unsigned(__builtin_ctz(m)))) found |= m & -m;
      return found;
    });
  }
};

// Maps a swizzle type to the corresponding vector type, and any other type to itself.
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
