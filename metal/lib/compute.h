// The type in which the elements of a given type are computed.
#pragma once

#include "lib/types.h"

// half and bfloat are computed in float. All other types are their own compute types.
template <typename T> struct compute { typedef T type; };
template <> struct compute<half> { typedef float type; };
template <> struct compute<bfloat> { typedef float type; };
template <typename T> using compute_t = typename compute<T>::type;
