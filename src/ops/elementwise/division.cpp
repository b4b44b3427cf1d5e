// Division with rounding, remainders and powers. These operators inspect their arguments before they launch a kernel.
#include <ATen/ops/all.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include <cmath>
#include <string_view>

#include "ops/elementwise/binary.h"
#include "ops/elementwise/complex.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
constexpr auto kFixed = ElementwiseKernels::Order::FIXED;
constexpr auto kExact = ElementwiseKernels::Number::EXACT;
constexpr BinaryRow kFloorDivide{"floor_divide", "", Types::REAL, Promotion::COMMON, kFixed, kExact};
constexpr BinaryRow kDivTrunc{"div_trunc", "", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kFmod{"fmod", "Tensor", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kRemainder{"remainder", "Tensor", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kPow{"pow", "Tensor_Tensor", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kDiv{"div", "Tensor", Types::FLOAT, Promotion::FLOATING, kFixed, kExact};

template <const BinaryRow& ROW>
const ElementwiseKernels& kernels() {
  static const ElementwiseKernels k = ROW.kernels();
  return k;
}

// Like the CPU, throws if an integer is divided by zero. The kernel would trap.
void check_divisor(at::ScalarType type, const Tensor& b) {
  if (!at::isIntegralType(type, true) || b.numel() == 0) return;
  // Check the divisor in the dtype of the computation, because 256 becomes 0 in uint8.
  const Tensor as_used = b.device().is_cpu() ? b.to(type) : b;
  TORCH_CHECK(at::isFloatingType(b.scalar_type()) || as_used.all().item<bool>(), "ZeroDivisionError");
}

template <const BinaryRow& ROW>
bool arithmetic(const Tensor& a, const Tensor& b, Tensor& out) {
  const auto type = binary_compute_type(ROW, kernels<ROW>(), a, b);
  if (type == at::ScalarType::Undefined) return false;
  if constexpr (&ROW != &kPow && &ROW != &kDiv)
    if (accepts(out, type) && a.numel() > 0) check_divisor(type, b);
  return run_binary(ROW, kernels<ROW>(), type, a, b, ScalarParams{}, out);
}

bool remainder_of_number(const Scalar& self, const Tensor& other, Tensor& out) {
  return arithmetic<kRemainder>(wrapped_number(self), other, out);
}

bool div_mode(const Tensor& a, const Tensor& b, std::optional<std::string_view> mode, Tensor& out) {
  if (!mode) return arithmetic<kDiv>(a, b, out);
  TORCH_CHECK(*mode == "trunc" || *mode == "floor",
              "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *mode, "'");
  return *mode == "trunc" ? arithmetic<kDivTrunc>(a, b, out) : arithmetic<kFloorDivide>(a, b, out);
}

// ---- pow

// Returns whether PyTorch's CPU kernel computes this power exactly, in a case where pow() would round.
bool is_small(at::ScalarType type, const Scalar& exponent) {
  if (exponent.isComplex()) return false;
  const double e = exponent.toDouble();
  if (e == 1.0 || e == 2.0 || e == 3.0) return type != at::kBool;
  return !at::isIntegralType(type, true) && (e == 0.5 || e == -0.5 || e == -1.0 || e == -2.0);
}
bool multiplied(const Tensor& a, double exponent, Tensor& out) {
  static const ElementwiseKernels square("square", 1), cube("cube", 1), inverse_square("inverse_square", 1);
  if (!accepts(out, a.scalar_type())) return false;
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(a).build();
  (exponent == 2.0 ? square : exponent == 3.0 ? cube : inverse_square).run(iter, tag_of(a), ScalarParams{});
  if (!out.defined()) out = iter.output();
  return true;
}
bool pow_small(const Tensor& a, double exponent, Tensor& out) {
  if (exponent == 1.0) return return_or_copy("pow", out.is_same(a) ? a : a.clone(), out);
  if (exponent == 0.5) return return_or_copy("pow", a.sqrt(), out);
  if (exponent == -0.5) return return_or_copy("pow", a.rsqrt(), out);
  if (exponent == -1.0) return return_or_copy("pow", a.reciprocal(), out);
  if (!a.is_complex() || exponent == 2.0) return multiplied(a, exponent, out);
  Tensor square;
  multiplied(a, 2.0, square);
  return return_or_copy("pow", exponent == 3.0 ? square.mul(a) : square.reciprocal(), out);
}

bool pow_number(const Tensor& a, const Scalar& exponent, Tensor& out) {
  if (is_plain_complex(a) && exponent.equal(0)) return return_or_copy("pow", at::ones_like(a), out);
  if (is_plain_complex(a) && exponent.equal(1)) return return_or_copy("pow", a.clone(), out);
  const Tensor b = wrapped_number(exponent);
  const auto type = binary_compute_type(kPow, kernels<kPow>(), a, b);
  if (type == at::ScalarType::Undefined || !accepts(out, type)) return false;
  TORCH_CHECK(!at::isIntegralType(type, true) || !exponent.isIntegral(false) || exponent.toLong() >= 0,
              "Integers to negative integer powers are not allowed.");
  if (type != at::kFloat) check_holds(type, exponent);
  if (type == a.scalar_type() && is_small(type, exponent)) return pow_small(a, exponent.toDouble(), out);
  return arithmetic<kPow>(a, b, out);
}

// As on the CPU, a new output is contiguous, regardless of the layout of the exponent.
bool pow_of_number(const Scalar& base, const Tensor& exponent, Tensor& out) {
  const Tensor a = wrapped_number(base);
  const auto type = binary_compute_type(kPow, kernels<kPow>(), a, exponent);
  if (type == at::ScalarType::Undefined) return false;
  if (!out.defined()) out = at::empty(exponent.sizes(), exponent.options().dtype(type));
  return arithmetic<kPow>(a, exponent, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"floor_divide", &arithmetic<kFloorDivide>>(m);
  op<"fmod.Tensor", &arithmetic<kFmod>>(m);
  op<"remainder.Tensor", &arithmetic<kRemainder>>(m);
  op<"remainder.Scalar_Tensor", &remainder_of_number>(m);
  op<"div.Tensor_mode", &div_mode>(m);
  op<"pow.Tensor_Tensor", &arithmetic<kPow>>(m);
  op<"pow.Tensor_Scalar", &pow_number>(m);
  op<"pow.Scalar", &pow_of_number>(m);
}

}  // namespace mpsx::ops
