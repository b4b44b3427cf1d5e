// Which kernels matrix multiplication, convolution and attention use: the simdgroup tier (simdgroup_matrix) or the
// tensor tier (Metal 4's matmul2d).
#pragma once

namespace mpsx::runtime {

// The driver prefers a tier. MPSX_TIER=simdgroup or tensor forces one. Throws if the variable has another value, or if
// the driver has no tensor tier.
bool uses_tensor_tier();
// Returns whether MPSX_TIER=tensor. Launchers then use the tensor tier for small operands too.
bool forces_tensor_tier();

}  // namespace mpsx::runtime
