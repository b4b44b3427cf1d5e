// Included first by every kernel: the Metal standard library and loop hints.
#pragma once

#include <metal_stdlib>
using namespace metal;

// Loop hints. A translator may define them beforehand; they mean nothing to Apple's compiler.
//   MPSX_REDUCE(+ : sum, count)   the loop below only accumulates into these variables
//   MPSX_VECTORIZE                the iterations of the loop below do not depend on each other
//   MPSX_FEW                      the loop below has few iterations, and is not worth vectors
//   MPSX_UNROLL                   the loop below indexes arrays that stay in registers, so it must be unrolled
#ifndef MPSX_REDUCE
#define MPSX_REDUCE(...)
#endif
#ifndef MPSX_VECTORIZE
#define MPSX_VECTORIZE
#endif
#ifndef MPSX_FEW
#define MPSX_FEW
#endif
#ifndef MPSX_UNROLL
#define MPSX_UNROLL _Pragma("unroll")
#endif
