// Exponentials of numbers that are not positive, as in softmax.
#pragma once

#include "lib/types.h"

// exp(x) for x <= 0.
inline float exp_nonpositive(float x) { return precise::exp(x); }
// With the precision of O.
template <typename O> inline float exp_nonpositive_as(float x) { return fast::exp(x); }
template <> inline float exp_nonpositive_as<float>(float x) { return exp_nonpositive(x); }
