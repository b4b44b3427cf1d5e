// Selects the kernels for matrix multiplication, convolution and attention. The simdgroup tier uses simdgroup_matrix,
// and the tensor tier uses Metal 4's matmul2d.
#pragma once

namespace mpsx::runtime {

// Returns whether to use the tensor tier. MPSX_TIER=simdgroup or MPSX_TIER=tensor overrides the GPU's tuning.
// Throws if MPSX_TIER has any other value, or if it is `tensor` and the driver has no tensor tier.
bool uses_tensor_tier();
// Returns whether MPSX_TIER is `tensor`. In that case, launchers use the tensor tier even for small operands.
bool forces_tensor_tier();
// Returns whether kernels that multiply fragments of one SIMD group use matmul2d for it. GPUs that need the largest
// tiles for speed gain nothing from it, and use it only with MPSX_TIER=tensor.
bool uses_tensor_fragments();
// Returns whether the tensor tier is fastest with the largest tiles that a threadgroup can compute.
bool prefers_large_tensor_tiles();

}  // namespace mpsx::runtime
