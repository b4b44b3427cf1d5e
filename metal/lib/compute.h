// The type that arithmetic on an element type is done in.
#pragma once

#include "lib/types.h"

// half and bfloat compute in float, everything else in itself.
template <typename T> struct compute { typedef T type; };
template <> struct compute<half> { typedef float type; };
template <> struct compute<bfloat> { typedef float type; };
template <typename T> using compute_t = typename compute<T>::type;
