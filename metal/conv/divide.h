#pragma once

#include "conv/params.h"

inline uint divide(uint n, FastDivmod by) { return (mulhi(n, by.multiplier) + n) >> by.shift; }
