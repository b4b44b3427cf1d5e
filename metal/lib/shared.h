// Fixed-width integers for params.h files, which kernels and launchers share. Every params.h includes this file
// first.
#pragma once

#ifdef __METAL__
#include <metal_stdlib>
using namespace metal;
#else
#include <cstdint>
#endif
