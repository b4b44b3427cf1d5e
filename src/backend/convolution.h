// Convolutions: torch sends any device it does not know to the "overrideable" pair, which has no CPU kernel of its own.
// Where a vendor's library is not preferred (vendor.h), kernels take what they can.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>

namespace mpsx::backend {

struct ConvolutionKernels {
  bool (*take)(const at::Tensor& input, const at::Tensor& weight);
  at::Tensor (*forward)(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                        c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                        c10::IntArrayRef output_padding, int64_t groups);
  std::tuple<at::Tensor, at::Tensor, at::Tensor> (*backward)(const at::Tensor& grad, const at::Tensor& input,
                                                             const at::Tensor& weight, c10::IntArrayRef stride,
                                                             c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                                             bool transposed, int64_t groups, std::array<bool, 3> mask);
};
void set_convolution_kernels(const ConvolutionKernels* kernels);

}  // namespace mpsx::backend
