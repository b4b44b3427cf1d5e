// The functions through which kernels reach the engine; compiled once a library, apart from the kernels.
#pragma once

#include "../kernel_abi.h"

// Not checked themselves, in a library whose kernels are.
#if defined(__clang__)
#define MPSX_UNCHECKED disable_sanitizer_instrumentation
#else
#define MPSX_UNCHECKED no_sanitize("thread", "bounds")
#endif
// In one file with the kernels, clang would find that these are not convergent after all.
#if defined(__clang__) && defined(MPSX_SIMT)
#define MPSX_OPAQUE noinline, optnone
#else
#define MPSX_OPAQUE noinline
#endif
#undef MPSX_CALL
#define MPSX_CALL __attribute__((MPSX_OPAQUE, visibility("hidden"), MPSX_UNCHECKED))

extern "C" {
extern __attribute__((visibility("hidden"))) const mpsx_simt_services* mpsx_simt;
const mpsx_simt_services* mpsx_simt = nullptr;

MPSX_CALL void mpsx_simt_threadgroup_barrier(unsigned flags, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, "threadgroup_barrier", flags};
  mpsx_simt->threadgroup_barrier(&site);
}
MPSX_CALL void mpsx_simt_simdgroup_barrier(unsigned flags, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, "simdgroup_barrier", flags};
  mpsx_simt->simdgroup_barrier(&site);
}
MPSX_CALL mpsx_met mpsx_simt_exchange(unsigned long long low, unsigned long long high, unsigned bytes,
                                      const char* function, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, function, 0};
  const unsigned long long value[2] = {low, high};
  unsigned lane;
  mpsx_lanes* const all = mpsx_simt->exchange(value, bytes, &lane, &site);
  return {all, all->active, lane};  // not filled in piece by piece: a processor waits when halves are read as a whole
}
MPSX_CALL mpsx_met mpsx_simt_exchange_long(const void* value, unsigned bytes, const char* function, const char* file,
                                           int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, function, 0};
  unsigned lane;
  mpsx_lanes* const all = mpsx_simt->exchange(value, bytes, &lane, &site);
  return {all, all->active, lane};  // not filled in piece by piece: a processor waits when halves are read as a whole
}
MPSX_CALL int mpsx_simt_inactive_lane(unsigned source, const char* function, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, function, 0};
  return mpsx_simt->inactive_lane(source, &site);
}
MPSX_CALL void* mpsx_simt_threadgroup_variable(unsigned key, unsigned bytes, const char* name) {
  return mpsx_simt->threadgroup_variable(key, bytes, name);
}
}
#if defined(__SANITIZE_THREAD__)
#define MPSX_CHECKED
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MPSX_CHECKED
#endif
#endif
#ifdef MPSX_CHECKED
#include "simt_checks.h"
#undef MPSX_CHECKED
#endif
#undef MPSX_CALL
#undef MPSX_UNCHECKED
#undef MPSX_OPAQUE
