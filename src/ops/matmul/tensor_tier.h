// Launches metal/matmul/matmul_tensor.metal.
#pragma once

#include "ops/matmul/gemm_args.h"

namespace mpsx::ops {

// Launches a kernel of the tensor tier if the tier is in use (runtime/tier.h) and has a kernel for the operands.
// Otherwise, launches nothing and returns false.
bool launch_tensor_tier(GemmArgs& args);

}  // namespace mpsx::ops
