// Launchers of activation.def: operators with scalar arguments, and the backwards of unary operators.
#include <ATen/TensorOperators.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <string_view>

#include "ops/elementwise/complex.h"
#include "ops/elementwise/elementwise.h"
#include "ops/schema.h"

namespace mpsx::ops {
namespace {

ScalarParams scalars3(const at::Scalar& a = 0, const at::Scalar& b = 0, const at::Scalar& c = 0) {
  for (const auto* s : {&a, &b, &c}) check_holds(at::kFloat, *s);
  ScalarParams p = scalar_params(a, b);
  p.f[3] = float(c.toDouble());
  return p;
}

// `out` undefined: allocated here, and the result's output().
at::TensorIterator run_unary(const ElementwiseKernels& kernels, const Tensor& x, const ScalarParams& s,
                             const Tensor& out) {
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(x).build();
  kernels.run(iter, tag_of(x), s);
  return iter;
}
at::TensorIterator run_backward(const ElementwiseKernels& kernels, const Tensor& grad, const Tensor& x,
                                const ScalarParams& s, const Tensor& out) {
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(grad).add_const_input(x).build();
  kernels.run(iter, tag_of(x), s);
  return iter;
}

bool out_fits(const Tensor& out, const Tensor& x) {
  return out.device() == x.device() && out.scalar_type() == x.scalar_type();
}

// The three forms of a forward operator whose arguments after `self` are Args, computed by KERNELS with SCALARS.
#define FORWARD(FUNCTION, OP, SIGNATURE, NAMES, KERNELS, SCALARS)                                                 \
  Tensor FUNCTION(const Tensor& self MPSX_SPREAD SIGNATURE) {                                                     \
    if (!has_float_kernel(self)) return fallback_call<Tensor>("aten::" OP, "", self MPSX_SPREAD NAMES);           \
    return run_unary(KERNELS, self, SCALARS, Tensor()).output();                                                  \
  }                                                                                                               \
  Tensor& FUNCTION##_write(Tensor& self MPSX_SPREAD SIGNATURE) {                                                  \
    if (!has_float_kernel(self)) return fallback_call<Tensor>("aten::" OP "_", "", self MPSX_SPREAD NAMES), self; \
    run_unary(KERNELS, self, SCALARS, self);                                                                      \
    return self;                                                                                                  \
  }                                                                                                               \
  Tensor& FUNCTION##_out(const Tensor& self MPSX_SPREAD SIGNATURE, Tensor& out) {                                 \
    if (!has_float_kernel(self) || !out_fits(out, self))                                                          \
      return fallback_call<Tensor>("aten::" OP, "out", self MPSX_SPREAD NAMES, out), out;                         \
    run_unary(KERNELS, self, SCALARS, out);                                                                       \
    return out;                                                                                                   \
  }
#define MPSX_SPREAD(...) __VA_OPT__(, ) __VA_ARGS__

#define UNARY_KERNELS(NAME)                     \
  ([]() -> const ElementwiseKernels& {          \
    static const ElementwiseKernels k(NAME, 1); \
    return k;                                   \
  }())
#define BACKWARD_KERNELS(NAME)                  \
  ([]() -> const ElementwiseKernels& {          \
    static const ElementwiseKernels k(NAME, 2); \
    return k;                                   \
  }())

bool is_tanh(std::string_view op, std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", op,
              ": expected approximate to be \"none\" or \"tanh\", got \"", approximate, "\"");
  return approximate == "tanh";
}

using at::Scalar;
FORWARD(gelu, "gelu", (c10::string_view approximate), (approximate),
        is_tanh("gelu", approximate) ? UNARY_KERNELS("gelu_tanh") : UNARY_KERNELS("gelu_none"), ScalarParams{})
FORWARD(silu, "silu", (), (), UNARY_KERNELS("silu"), ScalarParams{})
FORWARD(leaky_relu, "leaky_relu", (const Scalar& slope), (slope), UNARY_KERNELS("leaky_relu"), scalars3(slope))
FORWARD(elu, "elu", (const Scalar& alpha, const Scalar& scale, const Scalar& input_scale), (alpha, scale, input_scale),
        UNARY_KERNELS("elu"), scalars3(alpha.toDouble() * scale.toDouble(), scale, input_scale))
FORWARD(hardtanh, "hardtanh", (const Scalar& low, const Scalar& high), (low, high), UNARY_KERNELS("hardtanh"),
        scalars3(low, high))
FORWARD(hardswish, "hardswish", (), (), UNARY_KERNELS("hardswish"), ScalarParams{})
FORWARD(hardsigmoid, "hardsigmoid", (), (), UNARY_KERNELS("hardsigmoid"), ScalarParams{})
FORWARD(softplus, "softplus", (const Scalar& beta, const Scalar& threshold), (beta, threshold),
        UNARY_KERNELS("softplus"), scalars3(beta, threshold))
FORWARD(mish, "mish", (), (), UNARY_KERNELS("mish"), ScalarParams{})
FORWARD(threshold, "threshold", (const Scalar& at, const Scalar& value), (at, value), UNARY_KERNELS("threshold"),
        scalars3(at, value))

Scalar shrink_width(const Scalar& lambd) {
  TORCH_CHECK(lambd.toDouble() >= 0, "softshrink: lambda must be greater or equal to 0, but found to be ",
              lambd.toDouble(), ".");
  return lambd;
}
FORWARD(hardshrink, "hardshrink", (const Scalar& lambd), (lambd), UNARY_KERNELS("hardshrink"), scalars3(lambd))
FORWARD(softshrink, "softshrink", (const Scalar& lambd), (lambd), UNARY_KERNELS("softshrink"),
        scalars3(shrink_width(lambd)))

// A negative eps is none, as PyTorch reads it.
const ElementwiseKernels& logit_kernels(std::optional<double> eps) {
  return eps.value_or(-1) < 0 ? UNARY_KERNELS("logit") : UNARY_KERNELS("logit_clamped");
}
ScalarParams logit_range(std::optional<double> eps) { return scalars3(eps.value_or(0), 1 - eps.value_or(0)); }
FORWARD(logit, "logit", (std::optional<double> eps), (eps), logit_kernels(eps), logit_range(eps))

// What takes the place of NaN and the infinities: by default 0 and the largest numbers of the type.
ScalarParams finite_numbers(at::ScalarType type, std::optional<double> nan, std::optional<double> high,
                            std::optional<double> low) {
  const double most = type == at::kHalf       ? 65504.0
                      : type == at::kBFloat16 ? 3.3895313892515355e38
                                              : std::numeric_limits<float>::max();
  ScalarParams p = scalar_params(nan.value_or(0), high.value_or(most));
  p.f[3] = float(low.value_or(-most));
  return p;
}
Tensor& nan_to_num_out(const Tensor& self, std::optional<double> nan, std::optional<double> high,
                       std::optional<double> low, Tensor& out) {
  if (is_plain(self) && at::isIntegralType(self.scalar_type(), true) && out_fits(out, self)) {
    at::native::resize_output(out, self.sizes());
    return out.copy_(self);
  }
  if (!has_float_kernel(self) || !out_fits(out, self))
    return fallback_call<Tensor>("aten::nan_to_num", "out", self, nan, high, low, out), out;
  run_unary(UNARY_KERNELS("nan_to_num"), self, finite_numbers(self.scalar_type(), nan, high, low), out);
  return out;
}

// To 10^-decimals, by multiplying and dividing with a power of ten that is exact.
Tensor& round_decimals_out(const Tensor& self, int64_t decimals, Tensor& out) {
  if (!has_float_kernel(self) || !out_fits(out, self))
    return fallback_call<Tensor>("aten::round", "decimals_out", self, decimals, out), out;
  const double tens = std::pow(10.0, double(std::abs(decimals)));
  ScalarParams p{};
  p.f[0] = float(tens);  // infinite beyond 38, as in PyTorch
  run_unary(decimals < 0 ? UNARY_KERNELS("round_tens") : UNARY_KERNELS("round_decimals"), self, p, out);
  return out;
}
Tensor round_decimals(const Tensor& self, int64_t decimals) {
  if (!has_float_kernel(self)) return fallback_call<Tensor>("aten::round", "decimals", self, decimals);
  Tensor out = at::empty_like(self);
  return round_decimals_out(self, decimals, out);
}

// The two forms of a backward: grad_output and `self` first.
#define BACKWARD(FUNCTION, OP, SIGNATURE, NAMES, KERNELS, SCALARS)                                                   \
  Tensor FUNCTION(const Tensor& grad, const Tensor& self MPSX_SPREAD SIGNATURE) {                                    \
    if (!has_float_kernel(self) || !is_plain(grad) || grad.scalar_type() != self.scalar_type())                      \
      return fallback_call<Tensor>("aten::" OP, "", grad, self MPSX_SPREAD NAMES);                                   \
    return run_backward(KERNELS, grad, self, SCALARS, Tensor()).output();                                            \
  }                                                                                                                  \
  Tensor& FUNCTION##_out(const Tensor& grad, const Tensor& self MPSX_SPREAD SIGNATURE, Tensor& grad_input) {         \
    if (!has_float_kernel(self) || !is_plain(grad) || grad.scalar_type() != self.scalar_type() ||                    \
        !out_fits(grad_input, self))                                                                                 \
      return fallback_call<Tensor>("aten::" OP, "grad_input", grad, self MPSX_SPREAD NAMES, grad_input), grad_input; \
    run_backward(KERNELS, grad, self, SCALARS, grad_input);                                                          \
    return grad_input;                                                                                               \
  }

BACKWARD(gelu_backward, "gelu_backward", (c10::string_view approximate), (approximate),
         is_tanh("gelu_backward", approximate) ? BACKWARD_KERNELS("gelu_tanh_backward")
                                               : BACKWARD_KERNELS("gelu_none_backward"),
         ScalarParams{})
BACKWARD(silu_backward, "silu_backward", (), (), BACKWARD_KERNELS("silu_backward"), ScalarParams{})
BACKWARD(sigmoid_backward, "sigmoid_backward", (), (), BACKWARD_KERNELS("sigmoid_result_backward"), ScalarParams{})
BACKWARD(tanh_backward, "tanh_backward", (), (), BACKWARD_KERNELS("tanh_result_backward"), ScalarParams{})
BACKWARD(threshold_backward, "threshold_backward", (const Scalar& at), (at), BACKWARD_KERNELS("threshold_backward"),
         scalars3(at))
BACKWARD(leaky_relu_backward, "leaky_relu_backward", (const Scalar& slope, bool is_result), (slope, is_result),
         BACKWARD_KERNELS("leaky_relu_backward"), scalars3(slope))
BACKWARD(hardtanh_backward, "hardtanh_backward", (const Scalar& low, const Scalar& high), (low, high),
         BACKWARD_KERNELS("hardtanh_backward"), scalars3(low, high))
BACKWARD(hardswish_backward, "hardswish_backward", (), (), BACKWARD_KERNELS("hardswish_backward"), ScalarParams{})
BACKWARD(hardsigmoid_backward, "hardsigmoid_backward", (), (), BACKWARD_KERNELS("hardsigmoid_backward"), ScalarParams{})
BACKWARD(softplus_backward, "softplus_backward", (const Scalar& beta, const Scalar& threshold), (beta, threshold),
         BACKWARD_KERNELS("softplus_backward"), scalars3(beta, threshold))
BACKWARD(mish_backward, "mish_backward", (), (), BACKWARD_KERNELS("mish_backward"), ScalarParams{})

BACKWARD(hardshrink_backward, "hardshrink_backward", (const Scalar& lambd), (lambd),
         BACKWARD_KERNELS("shrink_backward"), scalars3(lambd))
BACKWARD(softshrink_backward, "softshrink_backward", (const Scalar& lambd), (lambd),
         BACKWARD_KERNELS("shrink_backward"), scalars3(shrink_width(lambd)))
BACKWARD(logit_backward, "logit_backward", (std::optional<double> eps), (eps),
         eps.value_or(-1) < 0 ? BACKWARD_KERNELS("logit_backward") : BACKWARD_KERNELS("logit_clamped_backward"),
         logit_range(eps))

// elu's backward has its own argument order: (grad, alpha, scale, input_scale, is_result, self or result).
Tensor elu_backward(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                    bool is_result, const Tensor& x) {
  if (!has_float_kernel(x) || !is_plain(grad) || grad.scalar_type() != x.scalar_type())
    return fallback_call<Tensor>("aten::elu_backward", "", grad, alpha, scale, input_scale, is_result, x);
  TORCH_CHECK(!is_result || alpha.toDouble() >= 0.0,
              "elu_backward: in-place elu with a negative alpha has no gradient; got alpha ", alpha.toDouble());
  return run_backward(is_result ? BACKWARD_KERNELS("elu_result_backward") : BACKWARD_KERNELS("elu_backward"), grad, x,
                      scalars3(alpha.toDouble() * scale.toDouble(), scale, input_scale), Tensor())
      .output();
}

Tensor& elu_backward_out(const Tensor& grad, const Scalar& alpha, const Scalar& scale, const Scalar& input_scale,
                         bool is_result, const Tensor& x, Tensor& grad_input) {
  return write_out("elu_backward", ops::elu_backward(grad, alpha, scale, input_scale, is_result, x), grad_input);
}

// The buffer is what the CPU kernel keeps for its backward; ours needs none.
std::tuple<Tensor, Tensor> log_sigmoid_forward(const Tensor& self) {
  if (!has_float_kernel(self)) return fallback_call<std::tuple<Tensor, Tensor>>("aten::log_sigmoid_forward", "", self);
  // Contiguous whatever the input, as the CPU's is.
  return {run_unary(UNARY_KERNELS("log_sigmoid"), self, ScalarParams{}, self.new_empty(self.sizes())).output(),
          self.new_empty({0})};
}
Tensor log_sigmoid_backward(const Tensor& grad, const Tensor& self, const Tensor& buffer) {
  if (!has_float_kernel(self) || !is_plain(grad) || grad.scalar_type() != self.scalar_type())
    return fallback_call<Tensor>("aten::log_sigmoid_backward", "", grad, self, buffer);
  return run_backward(BACKWARD_KERNELS("log_sigmoid_backward"), grad, self, ScalarParams{}, Tensor()).output();
}
std::tuple<Tensor&, Tensor&> log_sigmoid_forward_out(const Tensor& self, Tensor& output, Tensor& buffer) {
  const auto [result, kept] = ops::log_sigmoid_forward(self);
  return {write_out("log_sigmoid_forward", result, output), write_out("log_sigmoid_forward", kept, buffer)};
}
Tensor& log_sigmoid_backward_out(const Tensor& grad, const Tensor& self, const Tensor& buffer, Tensor& grad_input) {
  return write_out("log_sigmoid_backward", ops::log_sigmoid_backward(grad, self, buffer), grad_input);
}

// Whole numbers, for which other operators are the same.
bool is_whole(const Tensor& t) { return is_plain(t) && at::isIntegralType(t.scalar_type(), false); }
Tensor whole_hardtanh(const Tensor& x, const Scalar& low, const Scalar& high) {
  const int64_t a = low.to<int64_t>(), b = high.to<int64_t>();
  TORCH_CHECK(x.scalar_type() != at::kByte || (a >= 0 && b >= 0),
              "Cannot do hardtanh on an unsigned type with negative limits");
  return at::clamp(x, a, b);
}
Tensor whole_threshold(const Tensor& x, const Scalar& at, const Scalar& value) {
  check_holds(x.scalar_type(), at);
  check_holds(x.scalar_type(), value);
  return at::where(x.le(at.to<int64_t>()), wrapped_number(value.to<int64_t>()), x);
}
bool is_exact(const Tensor& t) { return is_plain(t) && at::isIntegralType(t.scalar_type(), /*includeBool=*/true); }
Tensor whole_logit(const Tensor& x, std::optional<double> eps) {
  return ops::logit(x.to(c10::typeMetaToScalarType(c10::get_default_dtype())), eps);
}
#define FORWARD_OF_WHOLE(FUNCTION, TEST, SIGNATURE, NAMES)                                                       \
  Tensor any_##FUNCTION(const Tensor& self MPSX_SPREAD SIGNATURE) {                                              \
    return TEST(self) ? whole_##FUNCTION(self MPSX_SPREAD NAMES) : ops::FUNCTION(self MPSX_SPREAD NAMES);        \
  }                                                                                                              \
  Tensor& any_##FUNCTION##_out(const Tensor& self MPSX_SPREAD SIGNATURE, Tensor& out) {                          \
    if (TEST(self) && is_plain(out)) return write_out(#FUNCTION, whole_##FUNCTION(self MPSX_SPREAD NAMES), out); \
    return ops::FUNCTION##_out(self MPSX_SPREAD NAMES, out);                                                     \
  }                                                                                                              \
  Tensor& any_##FUNCTION##_write(Tensor& self MPSX_SPREAD SIGNATURE) {                                           \
    if (TEST(self)) return write_out(#FUNCTION, whole_##FUNCTION(self MPSX_SPREAD NAMES), self);                 \
    return ops::FUNCTION##_write(self MPSX_SPREAD NAMES);                                                        \
  }
FORWARD_OF_WHOLE(hardtanh, is_whole, (const Scalar& low, const Scalar& high), (low, high))
FORWARD_OF_WHOLE(threshold, is_whole, (const Scalar& at, const Scalar& value), (at, value))
FORWARD_OF_WHOLE(logit, is_exact, (std::optional<double> eps), (eps))

// Complex numbers, by their result y.
#define BACKWARD_OF_COMPLEX(FUNCTION, SLOPE)                                                               \
  Tensor any_##FUNCTION(const Tensor& grad, const Tensor& y) {                                             \
    return is_plain_complex(y) && is_plain_complex(grad) ? grad * (SLOPE).conj() : ops::FUNCTION(grad, y); \
  }                                                                                                        \
  Tensor& any_##FUNCTION##_out(const Tensor& grad, const Tensor& y, Tensor& grad_input) {                  \
    if (is_plain_complex(y) && is_plain_complex(grad))                                                     \
      return write_out(#FUNCTION, any_##FUNCTION(grad, y), grad_input);                                    \
    return ops::FUNCTION##_out(grad, y, grad_input);                                                       \
  }
BACKWARD_OF_COMPLEX(sigmoid_backward, (1 - y) * y)
BACKWARD_OF_COMPLEX(tanh_backward, 1 - y * y)

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define FORWARD_FORMS(NAME) Forms(#NAME, "").add(m, &NAME, &NAME##_write, &NAME##_out);
#define FORWARD_FORMS_OF_ANY(NAME) Forms(#NAME, "").add(m, &any_##NAME, &any_##NAME##_write, &any_##NAME##_out);
  FORWARD_FORMS(gelu)
  FORWARD_FORMS(silu)
  FORWARD_FORMS(leaky_relu)
  FORWARD_FORMS(elu)
  FORWARD_FORMS_OF_ANY(hardtanh)
  FORWARD_FORMS(hardswish)
  FORWARD_FORMS(hardsigmoid)
  FORWARD_FORMS(softplus)
  FORWARD_FORMS(mish)
  FORWARD_FORMS_OF_ANY(threshold)
  FORWARD_FORMS(hardshrink)
  FORWARD_FORMS(softshrink)
  FORWARD_FORMS_OF_ANY(logit)
  m.impl("nan_to_num.out", &nan_to_num_out);
  m.impl("round.decimals", &round_decimals);
  m.impl("round.decimals_out", &round_decimals_out);
#define BACKWARD_FORMS_OF_ANY(NAME) \
  m.impl(#NAME, &any_##NAME);       \
  m.impl(#NAME ".grad_input", &any_##NAME##_out);
#define BACKWARD_FORMS(NAME) \
  m.impl(#NAME, &NAME);      \
  if (Forms::exists("aten::" #NAME, "grad_input")) m.impl(#NAME ".grad_input", &NAME##_out);
  BACKWARD_FORMS(gelu_backward)
  BACKWARD_FORMS(silu_backward)
  BACKWARD_FORMS_OF_ANY(sigmoid_backward)
  BACKWARD_FORMS_OF_ANY(tanh_backward)
  BACKWARD_FORMS(threshold_backward)
  BACKWARD_FORMS(leaky_relu_backward)
  BACKWARD_FORMS(hardtanh_backward)
  BACKWARD_FORMS(hardswish_backward)
  BACKWARD_FORMS(hardsigmoid_backward)
  BACKWARD_FORMS(softplus_backward)
  BACKWARD_FORMS(mish_backward)
  BACKWARD_FORMS(hardshrink_backward)
  BACKWARD_FORMS(softshrink_backward)
  BACKWARD_FORMS(logit_backward)
  m.impl("elu_backward", &elu_backward);
  m.impl("elu_backward.grad_input", &elu_backward_out);
  m.impl("log_sigmoid_forward", &log_sigmoid_forward);
  m.impl("log_sigmoid_forward.output", &log_sigmoid_forward_out);
  m.impl("log_sigmoid_backward", &log_sigmoid_backward);
  m.impl("log_sigmoid_backward.grad_input", &log_sigmoid_backward_out);
}

}  // namespace mpsx::ops
