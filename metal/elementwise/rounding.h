// Rounding to integers. Integer types are returned unchanged.
#pragma once

#include "lib/types.h"

template <typename T> inline T floor_of(T x) { return x; }
inline float floor_of(float x) { return floor(x); }
template <typename T> inline T ceil_of(T x) { return x; }
inline float ceil_of(float x) { return ceil(x); }
template <typename T> inline T trunc_of(T x) { return x; }
inline float trunc_of(float x) { return trunc(x); }
template <typename T> inline T nearest_of(T x) { return x; }  // ties go to even
inline float nearest_of(float x) { return rint(x); }
