// The functions through which kernels call the engine. They are compiled once per library, separately from the kernels.
#pragma once

#include "kernel_abi.h"

// Excludes the functions in this file from the instrumentation of checked libraries.
#if defined(__clang__)
#define MPSX_UNCHECKED disable_sanitizer_instrumentation
#else
#define MPSX_UNCHECKED no_sanitize("thread", "bounds")
#endif
// If clang could see the bodies of these functions, it would infer that they are not convergent.
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

// In users' shaders (MPSX_GENERAL), clang calls these functions to convert its half type on x86 without F16C.
#if defined(MPSX_GENERAL) && defined(__clang__) && defined(__x86_64__) && !defined(__F16C__)
MPSX_CALL float __extendhfsf2(_Float16 h) {
  unsigned short bits;
  __builtin_memcpy(&bits, &h, 2);
  const unsigned magnitude = (bits & 0x7fffu) << 13;
  float f;
  __builtin_memcpy(&f, &magnitude, 4);
  f *= 0x1p112f;  // change the exponent bias from 15 to 127 and normalize subnormals
  unsigned word;
  __builtin_memcpy(&word, &f, 4);
  word = ((bits & 0x7c00u) == 0x7c00u ? magnitude | 0x7f800000u : word) | (bits & 0x8000u) << 16;
  __builtin_memcpy(&f, &word, 4);
  return f;
}
MPSX_CALL _Float16 __truncsfhf2(float f) {
  unsigned word;
  __builtin_memcpy(&word, &f, 4);
  const unsigned sign = word >> 16 & 0x8000u, a = word & 0x7fffffffu;
  unsigned r = (a - (112u << 23) + 0xfffu + (a >> 13 & 1u)) >> 13;
  if (a < 0x38800000u) {  // below 2^-14, adding 0.5 in float rounds at the right bit
    float small;
    __builtin_memcpy(&small, &a, 4);
    small += 0.5f;
    __builtin_memcpy(&r, &small, 4);
    r -= 0x3f000000u;
  } else if (a >= 0x477ff000u) {
    r = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  }
  const unsigned short bits = (unsigned short)(r | sign);
  _Float16 h;
  __builtin_memcpy(&h, &bits, 2);
  return h;
}
#endif

MPSX_CALL void mpsx_simt_threadgroup_barrier(unsigned flags, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, "threadgroup_barrier", flags};
  mpsx_simt->threadgroup_barrier(&site);
}
MPSX_CALL void mpsx_simt_simdgroup_barrier(unsigned flags, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, "simdgroup_barrier", flags};
  mpsx_simt->simdgroup_barrier(&site);
}
MPSX_CALL mpsx_exchanged mpsx_simt_exchange(unsigned long long low, unsigned long long high, unsigned bytes,
                                            const char* function, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, function, 0};
  const unsigned long long value[2] = {low, high};
  unsigned lane;
  mpsx_lanes* const all = mpsx_simt->exchange(value, bytes, &lane, &site);
  // Return the struct in registers. Storing its members to memory one by one would stall store forwarding.
  return {all, all->active, lane};
}
MPSX_CALL mpsx_exchanged mpsx_simt_exchange_long(const void* value, unsigned bytes, const char* function,
                                                 const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, function, 0};
  unsigned lane;
  mpsx_lanes* const all = mpsx_simt->exchange(value, bytes, &lane, &site);
  // Return the struct in registers. Storing its members to memory one by one would stall store forwarding.
  return {all, all->active, lane};
}
MPSX_CALL int mpsx_simt_inactive_lane(unsigned source, const char* function, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, function, 0};
  return mpsx_simt->inactive_lane(source, &site);
}
MPSX_CALL void* mpsx_simt_threadgroup_variable(unsigned key, unsigned bytes, const char* name) {
  return mpsx_simt->threadgroup_variable(key, bytes, name);
}
MPSX_CALL const mpsx_thread* mpsx_simt_current_thread() { return mpsx_simt->current_thread(); }
MPSX_CALL unsigned mpsx_simt_layout_seed() { return mpsx_simt->layout_seed(); }
MPSX_CALL const void* const* mpsx_simt_collective(const void* value, unsigned simdgroups, const char* function,
                                                  const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, function, 0};
  return mpsx_simt->collective(value, simdgroups, &site);
}
MPSX_CALL void mpsx_simt_incomplete_scope(unsigned active, const char* function, const char* file, int line) {
  const mpsx_site site = {__builtin_return_address(0), file, line, function, 0};
  mpsx_simt->incomplete_scope(active, &site);
}
MPSX_CALL void mpsx_simt_fault_site(const mpsx_site* site) { mpsx_simt->fault_site(site); }
#ifdef MPSX_CHECKED
MPSX_CALL void mpsx_simt_allow_races(const volatile void* p) {
  mpsx_simt->atomic(const_cast<const void*>(p), 0, MPSX_ALLOWS_RACES, nullptr);
}
MPSX_CALL void mpsx_simt_device_fence() { mpsx_simt->atomic(nullptr, 0, MPSX_DEVICE_FENCE, nullptr); }
#else
MPSX_CALL void mpsx_simt_allow_races(const volatile void*) {}
MPSX_CALL void mpsx_simt_device_fence() {}
#endif
}
#ifdef MPSX_CHECKED
#include "simt_checks.h"
#endif
#undef MPSX_CALL
#undef MPSX_UNCHECKED
#undef MPSX_OPAQUE
