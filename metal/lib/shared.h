// Included first by every params.h, which kernels and launchers share: fixed-width integers.
#pragma once

#ifdef __METAL__
#include <metal_stdlib>
using namespace metal;
#else
#include <cstdint>
#endif
