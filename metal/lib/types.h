// What every kernel includes first: the Metal standard library, loop hints, and how much one thread handles.
#pragma once

#include <metal_stdlib>
using namespace metal;

// Loop hints. A translator may define them beforehand; they mean nothing to Apple's compiler.
//   MPSX_REDUCE(+ : sum, count)   the loop below only accumulates into these variables
//   MPSX_REDUCE_BY(8, 2, + : sum) the same in two vectors of eight, for loops so short that their last steps count
//   MPSX_VECTORIZE                the iterations of the loop below do not depend on each other
//   MPSX_FEW                      the loop below has a few iterations, which are not worth vectors
#ifndef MPSX_REDUCE
#define MPSX_REDUCE(...)
#endif
#ifndef MPSX_REDUCE_BY
#define MPSX_REDUCE_BY(...)
#endif
#ifndef MPSX_VECTORIZE
#define MPSX_VECTORIZE
#endif
#ifndef MPSX_FEW
#define MPSX_FEW
#endif

// Bytes of each operand that a thread of a dense kernel handles; 0 stands for one element.
#ifndef MPSX_VECTOR_BYTES
#define MPSX_VECTOR_BYTES 16
#endif

// Elements of type T per thread of a dense kernel.
template <typename T>
constexpr constant uint lanes = MPSX_VECTOR_BYTES > int(sizeof(T)) ? MPSX_VECTOR_BYTES / sizeof(T) : 1;
