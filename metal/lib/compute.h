// The compute type of an element type.
#pragma once

#include "lib/types.h"

// half and bfloat are computed in float. Every other type is its own compute type.
template <typename T> struct compute { typedef T type; };
template <> struct compute<half> { typedef float type; };
template <> struct compute<bfloat> { typedef float type; };
template <typename T> using compute_t = typename compute<T>::type;
