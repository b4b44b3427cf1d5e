// The Metal standard library for translated kernels. It is freestanding: it includes no system headers and calls only
// memcpy and similar functions of the C library. Translated code is placed inside namespace metal, so the names it
// declares take precedence.
#pragma once

#include "kernel_abi.h"
#include "base.h"
// In checked libraries, these headers have no debug info, so that errors in inlined functions report the line of the
// user's call.
#if defined(MPSX_SIMT) && defined(__clang__)
MPSX_CONVERGENT_BEGIN
#pragma clang attribute push(__attribute__((nodebug)), apply_to = hasType(functionType))
#endif
#include "traits.h"
#include "division.h"
#include "limits.h"
#include "half.h"
#include "vector.h"
#include "vector_ops.h"
#include "extended_vector.h"
#include "math_basic.h"
#include "common.h"
#include "math_exp.h"
#include "math_trig.h"
#include "math_half.h"
#include "math_vector.h"
#include "geometric.h"
#include "integer.h"
#include "namespaces.h"
#include "relational.h"
#include "atomic.h"
#include "conditional.h"
#include "array.h"
#include "matrix.h"
#include "pack.h"
#if defined(MPSX_CUDA)
#include "cuda/simt.h"
#elif defined(MPSX_SIMT)
#include "simt.h"
#else
#include "simd.h"
#endif
// Tensor descriptors are template arguments, so shaders that use tensors are compiled as C++23.
#if __cplusplus > 202002L
#include "tensor/extents.h"
#include "tensor/packed_elements.h"
#include "tensor/tensor.h"
#ifdef MPSX_CUDA
#include "cuda/tensor/scope.h"
#else
#include "tensor/scope.h"
#endif
#include "tensor/layout.h"
#include "tensor/cooperative_tensor.h"
#include "tensor/matmul2d.h"
#include "tensor/convolution2d.h"
#endif
#include "launch.h"
#ifdef MPSX_CUDA
#include "cuda/entry.h"
#endif
// Instantiate the vectors that most shaders use, so that the precompiled header contains them.
static_assert(sizeof(metal::uint3) && sizeof(metal::uint2) && sizeof(metal::float4) && sizeof(metal::float2));
#if defined(MPSX_SIMT) && defined(__clang__)
#pragma clang attribute pop
MPSX_ATTRIBUTE_END
#endif
