// Selects the kernels for matrix multiplication, convolution and attention: the simdgroup tier (simdgroup_matrix) or
// the tensor tier (Metal 4's matmul2d).
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// The driver prefers a tier. MPSX_TIER=simdgroup or tensor forces one. Throws if the variable has a different value, or
// if the driver has no tensor tier.
bool uses_tensor_tier();
// Returns whether MPSX_TIER=tensor, which makes launchers use the tensor tier even for small operands.
bool forces_tensor_tier();
// Returns whether kernels that multiply fragments of one SIMD group use matmul2d for it. GPUs that need the largest
// tiles for speed gain nothing from it, and use it only with MPSX_TIER=tensor.
bool uses_tensor_fragments();
// Returns whether the tensor tier is fastest with the largest tiles that a threadgroup can compute.
bool prefers_large_tensor_tiles();
// Returns the number of outputs above which the tensor tier is faster for matmul.
uint32_t min_tensor_outputs();

}  // namespace mpsx::runtime
