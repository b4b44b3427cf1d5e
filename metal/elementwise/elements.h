// Loads and stores of dense loops.
#pragma once

#include "lib/types.h"

template <typename T>
inline T element(device const T* x, uint i) { return x[i]; }
template <typename T>
inline void set_element(device T* x, uint i, T value) { x[i] = value; }
