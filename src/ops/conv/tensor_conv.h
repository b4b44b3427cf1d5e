// Convolutions on the tensor tier, as GEMMs of metal/conv/conv_gemm_tensor.metal and of matmul.
#pragma once

#include "ops/conv/layout.h"

namespace mpsx::ops {

// Returns whether the driver runs convolutions of the tensor's type on the tensor tier. GPUs with small tiles use the
// fragments of conv_tensor.metal instead.
bool uses_tensor_convolution(const Tensor& t);

// Compute a convolution without groups, its input gradient if `backward`, or its weight gradient. `window` slides over
// `source`. Return false, and launch nothing, if the tensor tier does not support the operands or would be slower.
bool tensor_convolution(const Tensor& out, const Tensor& source, const Tensor& weight, const Tensor& bias,
                        const ConvWindow& window, bool backward);
bool tensor_weight_gradient(const Tensor& out, const Tensor& source, const Tensor& grad, const ConvWindow& window);

}  // namespace mpsx::ops
