// Launchers for activation.def: operators with scalar arguments, and the backward passes of unary operators.
#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "ops/elementwise/complex.h"
#include "ops/elementwise/elementwise.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
constexpr double kMaxBFloat16 = 3.3895313892515355e38;

ScalarParams scalars3(const at::Scalar& a = 0, const at::Scalar& b = 0, const at::Scalar& c = 0) {
  for (const auto* s : {&a, &b, &c}) check_holds(at::kFloat, *s);
  ScalarParams p = scalar_params(a, b);
  p.f[3] = float(c.toDouble());
  return p;
}

// Returns the kernels of the operator KERNEL, which have one or two inputs.
template <OperatorName KERNEL, int inputs>
const ElementwiseKernels& kernels() {
  static const ElementwiseKernels k(KERNEL.text, inputs);
  return k;
}

// Runs a forward kernel and returns true, if there is one for `x`. As on the CPU, `out` must have the same dtype as
// `x`.
template <OperatorName KERNEL>
bool forward(const Tensor& x, const ScalarParams& s, Tensor& out, bool overlaps = false) {
  if (!has_float_kernel(x)) return false;
  TORCH_CHECK(accepts(out, x.scalar_type()), "Found dtype ", out.scalar_type(), " but expected ", x.scalar_type());
  at::TensorIterator iter =
      at::TensorIteratorConfig().set_check_mem_overlap(!overlaps).add_output(out).add_const_input(x).build();
  kernels<KERNEL, 1>().run(iter, tag_of(x), s);
  if (!out.defined()) out = iter.output();
  return true;
}

// Runs a backward kernel on the output gradient and the input or output of the forward pass.
template <OperatorName KERNEL>
bool backward(const Tensor& grad, const Tensor& x, const ScalarParams& s, Tensor& grad_input) {
  if (!has_float_kernel(x) || !is_plain(grad) || grad.scalar_type() != x.scalar_type() ||
      !accepts(grad_input, x.scalar_type()))
    return false;
  at::TensorIterator iter =
      at::TensorIteratorConfig().add_output(grad_input).add_const_input(grad).add_const_input(x).build();
  kernels<KERNEL, 2>().run(iter, tag_of(x), s);
  if (!grad_input.defined()) grad_input = iter.output();
  return true;
}

// As `backward`, but as on the CPU, the result has the layout of `x` if the layouts differ.
template <OperatorName KERNEL>
bool backward_like_input(const Tensor& grad, const Tensor& x, const ScalarParams& s, Tensor& grad_input) {
  const bool runs = has_float_kernel(x) && is_plain(grad) && grad.scalar_type() == x.scalar_type();
  if (runs && !grad_input.defined() && grad.strides() != x.strides()) {
    const Tensor none;
    at::TensorIterator iter =
        at::TensorIteratorConfig().add_output(none).add_const_input(x).add_const_input(grad).build();
    grad_input = iter.output();
  }
  return backward<KERNEL>(grad, x, s, grad_input);
}

// Operators without scalar arguments.
template <OperatorName KERNEL>
bool plain_forward(const Tensor& self, Tensor& out) {
  return forward<KERNEL>(self, {}, out);
}
template <OperatorName KERNEL>
bool plain_backward(const Tensor& grad, const Tensor& self, Tensor& grad_input) {
  return backward<KERNEL>(grad, self, {}, grad_input);
}

bool is_tanh(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate argument must be either none or tanh.");
  return approximate == "tanh";
}
bool gelu(const Tensor& self, std::string_view approximate, Tensor& out) {
  return is_tanh(approximate) ? forward<"gelu_tanh">(self, {}, out) : forward<"gelu_none">(self, {}, out);
}
bool gelu_backward(const Tensor& grad, const Tensor& self, std::string_view approximate, Tensor& grad_input) {
  return is_tanh(approximate) ? backward<"gelu_tanh_backward">(grad, self, {}, grad_input)
                                               : backward<"gelu_none_backward">(grad, self, {}, grad_input);
}

bool leaky_relu(const Tensor& self, const Scalar& slope, Tensor& out) {
  return forward<"leaky_relu">(self, scalars3(slope), out);
}
bool leaky_relu_backward(const Tensor& grad, const Tensor& self, const Scalar& slope, bool is_result,
                         Tensor& grad_input) {
  TORCH_CHECK(!is_result || slope.toDouble() >= 0.0,
              "In-place leakyReLu backward calculation is triggered with a negative slope which is not supported. This "
              "is caused by calling in-place forward function with a negative slope, please call out-of-place version "
              "instead; got slope ",
              slope.toDouble());
  return backward_like_input<"leaky_relu_backward">(grad, self, scalars3(slope), grad_input);
}

bool elu(const Tensor& self, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale, Tensor& out) {
  return forward<"elu">(self, scalars3(alpha.toDouble() * scale.toDouble(), scale, input_scale), out);
}
bool elu_backward(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                  bool is_result, const Tensor& x, Tensor& grad_input) {
  TORCH_CHECK(!is_result || alpha.toDouble() >= 0.0,
              "In-place elu backward calculation is triggered with a negative slope which is not supported. This is "
              "caused by calling in-place forward function with a negative slope, please call out-of-place version "
              "instead.");
  const ScalarParams s = scalars3(alpha.toDouble() * scale.toDouble(), scale, input_scale);
  return is_result ? backward<"elu_result_backward">(grad, x, s, grad_input)
                   : backward<"elu_backward">(grad, x, s, grad_input);
}

bool is_integral(const Tensor& t) { return is_plain(t) && at::isIntegralType(t.scalar_type(), /*includeBool=*/false); }

// Throws if a threshold or fill value is out of range for a half type.
void check_limit(const Tensor& self, const Scalar& limit) {
  if (has_float_kernel(self)) check_holds(self.scalar_type(), limit);
}

bool hardtanh(const Tensor& self, const Scalar& low, const Scalar& high, Tensor& out) {
  for (const Scalar* limit : {&low, &high}) check_limit(self, *limit);
  if (!is_integral(self)) return forward<"hardtanh">(self, scalars3(low, high), out);
  const int64_t a = low.to<int64_t>(), b = high.to<int64_t>();
  TORCH_CHECK(self.scalar_type() != at::kByte || (a >= 0 && b >= 0),
              "Cannot do hardtanh on an unsigned type with negative limits");
  return return_or_copy("hardtanh", at::clamp(self, a, b), out);
}
bool hardtanh_backward(const Tensor& grad, const Tensor& self, const Scalar& low, const Scalar& high,
                       Tensor& grad_input) {
  return backward<"hardtanh_backward">(grad, self, scalars3(low, high), grad_input);
}

bool softplus(const Tensor& self, const Scalar& beta, const Scalar& threshold, Tensor& out) {
  return forward<"softplus">(self, scalars3(beta, threshold), out);
}
bool softplus_backward(const Tensor& grad, const Tensor& self, const Scalar& beta, const Scalar& threshold,
                       Tensor& grad_input) {
  return backward<"softplus_backward">(grad, self, scalars3(beta, threshold), grad_input);
}

bool threshold(const Tensor& self, const Scalar& at, const Scalar& value, Tensor& out) {
  check_limit(self, value);
  // An expanded self is safe, because threshold is idempotent.
  if (!is_integral(self)) {
    return accepts(out, self.scalar_type()) && forward<"threshold">(self, scalars3(at, value), out, true);
  }
  check_holds(self.scalar_type(), at);
  check_holds(self.scalar_type(), value);
  return return_or_copy("threshold", at::where(self.le(at.to<int64_t>()), wrapped_number(value.to<int64_t>()), self),
                        out);
}
bool threshold_backward(const Tensor& grad, const Tensor& self, const Scalar& at, Tensor& grad_input) {
  return backward_like_input<"threshold_backward">(grad, self, scalars3(at), grad_input);
}

Scalar shrink_width(const Tensor& self, const Scalar& lambd) {
  const double max_finite = self.scalar_type() == at::kHalf       ? 65504.0
                      : self.scalar_type() == at::kBFloat16 ? kMaxBFloat16
                                                            : std::numeric_limits<float>::max();
  const double width = lambd.toDouble();
  TORCH_CHECK(width >= 0 && width <= max_finite, "softshrink: lambda must be in range [0, ", max_finite,
              "] for input dtype ", self.scalar_type(), ", but found ", width);
  return lambd;
}
bool hardshrink(const Tensor& self, const Scalar& lambd, Tensor& out) {
  check_limit(self, lambd);
  return forward<"hardshrink">(self, scalars3(lambd), out);
}
bool hardshrink_backward(const Tensor& grad, const Tensor& self, const Scalar& lambd, Tensor& grad_input) {
  return backward<"shrink_backward">(grad, self, scalars3(lambd), grad_input);
}
bool softshrink(const Tensor& self, const Scalar& lambd, Tensor& out) {
  return forward<"softshrink">(self, scalars3(shrink_width(self, lambd)), out);
}
bool softshrink_backward(const Tensor& grad, const Tensor& self, const Scalar& lambd, Tensor& grad_input) {
  return backward<"shrink_backward">(grad, self, scalars3(shrink_width(self, lambd)), grad_input);
}

// PyTorch treats a negative eps as no eps.
bool clamps(std::optional<double> eps) { return eps.value_or(-1) >= 0; }
ScalarParams logit_range(std::optional<double> eps) { return scalars3(eps.value_or(0), 1 - eps.value_or(0)); }
bool logit(const Tensor& self, std::optional<double> eps, Tensor& out) {
  if (is_plain(self) && at::isIntegralType(self.scalar_type(), /*includeBool=*/true))
    return logit(self.to(c10::typeMetaToScalarType(c10::get_default_dtype())), eps, out);
  if (!accepts(out, self.scalar_type())) return false;
  return clamps(eps) ? forward<"logit_clamped">(self, logit_range(eps), out)
                     : forward<"logit">(self, logit_range(eps), out);
}
bool logit_backward(const Tensor& grad, const Tensor& self, std::optional<double> eps, Tensor& grad_input) {
  return clamps(eps) ? backward<"logit_clamped_backward">(grad, self, logit_range(eps), grad_input)
                     : backward<"logit_backward">(grad, self, logit_range(eps), grad_input);
}

// Replaces NaN and infinities. By default, they become 0 and the largest finite values of the dtype.
bool nan_to_num(const Tensor& self, std::optional<double> nan, std::optional<double> high, std::optional<double> low,
                Tensor& out) {
  const at::ScalarType type = self.scalar_type();
  TORCH_CHECK(accepts(out, type), "nan_to_num: dtype of out: ", out.scalar_type(), " should be same as input: ", type);
  // For integers, the CPU copies the input. If it resizes an out= tensor, the new strides are contiguous.
  if (is_plain(self) && at::isIntegralType(type, true))
    return return_or_copy("nan_to_num", out.defined() ? self.contiguous() : self.clone(), out);
  const double max_finite = type == at::kHalf       ? 65504.0
                      : type == at::kBFloat16 ? kMaxBFloat16
                                              : std::numeric_limits<float>::max();
  ScalarParams p = scalar_params(nan.value_or(0), high.value_or(max_finite));
  p.f[3] = float(low.value_or(-max_finite));
  return forward<"nan_to_num">(self, p, out);
}

// Rounds to multiples of 10^-decimals. Scales by an exact power of ten.
bool round_decimals(const Tensor& self, int64_t decimals, Tensor& out) {
  ScalarParams p{};
  p.f[0] = float(std::pow(10.0, double(std::abs(decimals))));  // infinite beyond 38 decimals, as in PyTorch
  return decimals < 0 ? forward<"round_tens">(self, p, out) : forward<"round_decimals">(self, p, out);
}

// The derivatives of sigmoid and tanh are computed from the output y.
bool sigmoid_backward(const Tensor& grad, const Tensor& y, Tensor& grad_input) {
  if (is_plain_complex(y) && is_plain_complex(grad))
    return return_or_copy("sigmoid_backward", grad * ((1 - y) * y).conj(), grad_input);
  return backward<"sigmoid_result_backward">(grad, y, {}, grad_input);
}
bool tanh_backward(const Tensor& grad, const Tensor& y, Tensor& grad_input) {
  if (is_plain_complex(y) && is_plain_complex(grad))
    return return_or_copy("tanh_backward", grad * (1 - y * y).conj(), grad_input);
  return backward<"tanh_result_backward">(grad, y, {}, grad_input);
}

// The CPU kernel saves `buffer` for its backward pass. Our kernels do not need it.
bool log_sigmoid_forward(const Tensor& self, Tensor& output, Tensor& buffer) {
  if (!has_float_kernel(self)) return false;
  allocate_or_resize(output, self.sizes(), self.options());  // contiguous for any input, as on the CPU
  if (!buffer.defined()) buffer = self.new_empty({0});
  return forward<"log_sigmoid">(self, {}, output);
}
bool log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor&, Tensor& grad_input) {
  return backward<"log_sigmoid_backward">(grad, self, {}, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"gelu", &gelu>(m);
  op<"gelu_backward", &gelu_backward>(m);
  op<"silu", &plain_forward<"silu">>(m);
  op_over_composite<"silu_backward", &plain_backward<"silu_backward">>(m);
  op<"leaky_relu", &leaky_relu>(m);
  op<"leaky_relu_backward", &leaky_relu_backward>(m);
  op<"elu", &elu>(m);
  op<"elu_backward", &elu_backward>(m);
  op<"hardtanh", &hardtanh>(m);
  op<"hardtanh_backward", &hardtanh_backward>(m);
  op<"hardswish", &plain_forward<"hardswish">>(m);
  op<"hardswish_backward", &plain_backward<"hardswish_backward">>(m);
  op<"hardsigmoid", &plain_forward<"hardsigmoid">>(m);
  op<"hardsigmoid_backward", &plain_backward<"hardsigmoid_backward">>(m);
  op<"softplus", &softplus>(m);
  op<"softplus_backward", &softplus_backward>(m);
  op<"mish", &plain_forward<"mish">>(m);
  op_over_composite<"mish_backward", &plain_backward<"mish_backward">>(m);
  op<"threshold", &threshold>(m);
  op<"threshold_backward", &threshold_backward>(m);
  op<"hardshrink", &hardshrink>(m);
  op<"hardshrink_backward", &hardshrink_backward>(m);
  op<"softshrink", &softshrink>(m);
  op<"softshrink_backward", &softshrink_backward>(m);
  op<"logit", &logit>(m);
  op<"logit_backward", &logit_backward>(m);
  op<"nan_to_num", &nan_to_num>(m);
  op<"round.decimals", &round_decimals>(m);
  op<"sigmoid_backward", &sigmoid_backward>(m);
  op<"tanh_backward", &tanh_backward>(m);
  op<"log_sigmoid_forward", &log_sigmoid_forward>(m);
  op<"log_sigmoid_backward", &log_sigmoid_backward>(m);
}

}  // namespace mpsx::ops
