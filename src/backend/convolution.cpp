#include "backend/convolution.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include "backend/alias.h"
#include "backend/vendor.h"

namespace mpsx::backend {
namespace {

constexpr const char* kLibrary = "oneDNN through ATen";

const ConvolutionKernels* kernels = nullptr;

bool takes_kernel(const at::Tensor& input, const at::Tensor& weight) {
  return kernels && !prefers_vendor() && kernels->take(input, weight);
}

// oneDNN's half kernels read past the end of rows where a dimension is both strided and dilated (seen with oneDNN 3.12
// on CPUs with AVX512-FP16 and AMX: NaN, or results off by the values themselves). In float32 they are right.
bool needs_float(const at::Tensor& input, c10::IntArrayRef stride, c10::IntArrayRef dilation, bool transposed) {
  if (transposed || !c10::isReducedFloatingType(input.scalar_type())) return false;
  for (size_t d = 0; d < stride.size() && d < dilation.size(); ++d)
    if (stride[d] > 1 && dilation[d] > 1) return true;
  return false;
}

at::Tensor forward(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                   c10::IntArrayRef output_padding, int64_t groups) {
  if (takes_kernel(input, weight))
    return kernels->forward(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  static auto& route = runtime::route_entry("aten::convolution", runtime::Route::vendor, kLibrary);
  VendorCall call(route);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CpuAliases a;
  const at::Tensor x = a.cpu(input), w = a.cpu(weight);
  const auto b = a.cpu(bias);
  a.check_same_device("convolution");
  if (!needs_float(x, stride, dilation, transposed))
    return a.device(at::convolution(x, w, b, stride, padding, dilation, transposed, output_padding, groups));
  const auto wide = at::convolution(x.to(at::kFloat), w.to(at::kFloat), b ? std::optional(b->to(at::kFloat)) : b,
                                    stride, padding, dilation, transposed, output_padding, groups);
  return a.device(wide.to(x.scalar_type()));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& grad, const at::Tensor& input,
                                                        const at::Tensor& weight, c10::IntArrayRef stride,
                                                        c10::IntArrayRef padding, c10::IntArrayRef dilation,
                                                        bool transposed, c10::IntArrayRef output_padding,
                                                        int64_t groups, std::array<bool, 3> mask) {
  if (takes_kernel(input, weight) && kernels->take(grad, weight))
    return kernels->backward(grad, input, weight, stride, padding, dilation, transposed, groups, mask);
  static auto& route = runtime::route_entry("aten::convolution_backward", runtime::Route::vendor, kLibrary);
  VendorCall call(route);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CpuAliases a;
  const std::array<int64_t, 1> bias_size{transposed ? weight.size(1) * groups : weight.size(0)};
  auto [grad_input, grad_weight, grad_bias] = at::convolution_backward(
      a.cpu(grad), a.cpu(input), a.cpu(weight), mask[2] ? at::OptionalIntArrayRef(bias_size) : std::nullopt, stride,
      padding, dilation, transposed, output_padding, groups, mask);
  return {a.device(grad_input), a.device(grad_weight), a.device(grad_bias)};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("convolution_overrideable", forward);
  m.impl("convolution_backward_overrideable", backward);
}

}  // namespace

void set_convolution_kernels(const ConvolutionKernels* k) { kernels = k; }

}  // namespace mpsx::backend
