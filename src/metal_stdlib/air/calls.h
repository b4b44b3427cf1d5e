// The parts of a kernel library that are compiled to machine code, not to LLVM bitcode: calls into the engine, and
// conversion functions that the compiler calls.
#pragma once

#include "../simt_calls.h"

#if defined(__x86_64__)
// clang calls this function to round to bfloat.
extern "C" __attribute__((visibility("hidden"))) __bf16 __truncsfbf2(float f) {
  unsigned u;
  __builtin_memcpy(&u, &f, 4);
  const unsigned rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return __builtin_bit_cast(__bf16, (unsigned short)(f != f ? (u >> 16) | 0x40u : rounded));
}
#endif
