// Convolutions on the tensor tier, as GEMMs in metal/conv/conv_gemm_tensor.metal or in matmul.
#pragma once

#include "ops/conv/pixel_grid.h"

namespace mpsx::ops {

// Returns whether the driver runs convolutions of the tensor's dtype on the tensor tier. GPUs that are fastest with
// small tiles use the fragments in conv_tensor.metal instead.
bool uses_tensor_convolution(const Tensor& t);

// Compute a convolution (its input gradient if `backward` is true), or its weight gradient. `window` slides over
// `source`. If the tensor tier does not support the operands or would be slower, they launch nothing and
// return false. The first also returns false if it would take longer than `limit` microseconds. It stores the packed
// copy of its source in `packed`, so that the second can read it, too.
bool tensor_convolution(const Tensor& out, const Tensor& source, const Tensor& weight, const Tensor& bias,
                        const ConvWindow& window, int64_t groups, bool backward, double limit, PackedPixels& packed);
bool tensor_weight_gradient(const Tensor& out, const Tensor& source, const Tensor& grad, const ConvWindow& window,
                            int64_t groups, const PackedPixels& packed);

// Makes the channels of an output gradient contiguous if both gradients of a convolution with one tap would do so.
Tensor pack_shared_gradient(const Tensor& grad);

}  // namespace mpsx::ops
