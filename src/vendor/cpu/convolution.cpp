#include "vendor/cpu/convolution.h"

#include "vendor/cpu/vendor.h"

namespace mpsx::vendor {
namespace {

using at::IntArrayRef;
using at::Tensor;

constexpr const char* kOneDnn = "oneDNN through ATen";

// oneDNN's half-precision kernels read past the end of rows if a dimension is both strided and dilated. On CPUs with
// AVX512-FP16 and AMX, with oneDNN 3.12, results are NaN or completely wrong. The float32 kernels are correct.
bool needs_float(const Tensor& input, IntArrayRef stride, IntArrayRef dilation, bool transposed) {
  if (transposed || !c10::isReducedFloatingType(input.scalar_type())) return false;
  for (size_t d = 0; d < stride.size() && d < dilation.size(); ++d)
    if (stride[d] > 1 && dilation[d] > 1) return true;
  return false;
}

}  // namespace

Tensor convolution(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias, IntArrayRef stride,
                   IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef output_padding,
                   int64_t groups) {
  static const Operator op("aten::convolution", kOneDnn, "aten::convolution");
  if (!needs_float(input, stride, dilation, transposed))
    return op.call<Tensor>(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  const auto widened = bias && bias->defined() ? std::optional(bias->to(at::kFloat)) : std::nullopt;
  return op
      .call<Tensor>(input.to(at::kFloat), weight.to(at::kFloat), widened, stride, padding, dilation, transposed,
                    output_padding, groups)
      .to(input.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor> convolution_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                        at::OptionalIntArrayRef bias_sizes, IntArrayRef stride,
                                                        IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> mask) {
  static const Operator op("aten::convolution_backward", kOneDnn, "aten::convolution_backward");
  return op.call<std::tuple<Tensor, Tensor, Tensor>>(grad, input, weight, bias_sizes, stride, padding, dilation,
                                                     transposed, output_padding, groups, mask);
}

}  // namespace mpsx::vendor
