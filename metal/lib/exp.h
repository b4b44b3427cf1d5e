// Exponentials of nonpositive numbers, for example for softmax.
#pragma once

#include "lib/types.h"

inline float exp_nonpositive(float x) { return precise::exp(x); }
// Returns exp(x) for x <= 0, with the precision of the output type O.
template <typename O> inline float exp_nonpositive_as(float x) { return fast::exp(x); }
template <> inline float exp_nonpositive_as<float>(float x) { return exp_nonpositive(x); }
