// Included first by every params.h, which kernels and launchers share: fixed-width integers by their usual names.
#pragma once

#ifdef __METAL__
#include <metal_stdlib>
using namespace metal;
#else
#include <cstdint>
#endif
