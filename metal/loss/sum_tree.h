// Sums in the shape of a fixed tree: a thread adds up the same kFan neighbours whatever the launch looks like, so that
// a loss is the same number on every device and at any number of threads.
#pragma once

#include "lib/types.h"

constexpr constant uint kFan = 64;  // and in src/ops/loss/nll_loss.cpp
