// Includes the Metal standard library and defines loop hints. Every kernel includes this file first.
#pragma once

#ifdef __METAL__
#include <metal_stdlib>
using namespace metal;
#else
#include <cstdint>
#endif

// Loop hints. The MSL translator predefines the hints that it supports. Apple's compiler ignores all except
// MPSX_UNROLL.
//   MPSX_REDUCE(+ : sum, count)   the next loop only accumulates into these variables
//   MPSX_VECTORIZE                the iterations of the next loop are independent
//   MPSX_FEW                      the next loop has too few iterations to vectorize
//   MPSX_UNROLL                   the next loop indexes arrays that must stay in registers, so unroll it
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

// Exempts the buffer that contains `p` from the simt driver's checks for races, for the rest of the dispatch. Use it in
// kernels that are correct for any order of their accesses to the buffer, and say why.
#ifndef MPSX_ALLOW_RACES
#define MPSX_ALLOW_RACES(p)
#endif
