// Rounding division, remainders and powers: binary operators that look at their arguments before they launch.
#include <ATen/ops/all.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include <cmath>
#include <string_view>

#include "ops/elementwise/binary.h"
#include "ops/elementwise/complex.h"
#include "ops/schema.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
constexpr auto kFixed = ElementwiseKernels::Order::fixed;
constexpr BinaryRow kFloorDivide{"floor_divide", "", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kDivTrunc{"div_trunc", "", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kFmod{"fmod", "Tensor", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kRemainder{"remainder", "Tensor", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kPow{"pow", "Tensor_Tensor", Types::REAL, Promotion::COMMON, kFixed};
constexpr BinaryRow kDiv{"div", "Tensor", Types::FLOAT, Promotion::FLOATING, kFixed};

template <const BinaryRow& Row>
const ElementwiseKernels& kernels() {
  static const ElementwiseKernels k(Row.name, 2, Row.order);
  return k;
}

// Integer division by zero is an error on the CPU, and no kernel may see it (it traps).
void check_divisor(at::ScalarType type, const Tensor& b) {
  if (!at::isIntegralType(type, true) || b.numel() == 0) return;
  // A number may be zero only as what it is brought to: 256 as uint8.
  const Tensor as_used = b.device().is_cpu() ? b.to(type) : b;
  TORCH_CHECK(at::isFloatingType(b.scalar_type()) || as_used.all().item<bool>(), "ZeroDivisionError");
}

template <const BinaryRow& Row>
Tensor compute(at::ScalarType type, const Tensor& a, const Tensor& b) {
  if constexpr (&Row != &kPow && &Row != &kDiv) check_divisor(type, b);
  return run_binary(Row, kernels<Row>(), type, a, b, ScalarParams{}, Tensor());
}
template <const BinaryRow& Row>
Tensor& compute_out(at::ScalarType type, const Tensor& a, const Tensor& b, Tensor& out) {
  if constexpr (&Row != &kPow && &Row != &kDiv) check_divisor(type, b);
  return run_binary_out(Row, kernels<Row>(), type, a, b, ScalarParams{}, out);
}

// ---- floor_divide, fmod, remainder: (Tensor, Tensor)

template <const BinaryRow& Row>
const Forms& forms() {
  static const Forms f(Row.name, Row.overload);
  return f;
}
template <const BinaryRow& Row>
Tensor functional(const Tensor& a, const Tensor& b) {
  const auto type = binary_compute_type(Row, a, b);
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>(forms<Row>().op.c_str(), Row.overload, a, b);
  return compute<Row>(type, a, b);
}
template <const BinaryRow& Row>
Tensor& out_form(const Tensor& a, const Tensor& b, Tensor& out) {
  const auto type = binary_compute_type(Row, a, b);
  if (type == at::ScalarType::Undefined || !is_plain(out))
    return fallback_call<Tensor>(forms<Row>().op.c_str(), forms<Row>().out.c_str(), a, b, out), out;
  return compute_out<Row>(type, a, b, out);
}
template <const BinaryRow& Row>
Tensor& in_place(Tensor& self, const Tensor& b) {
  return out_form<Row>(self, b, self);
}

Tensor remainder_of_number(const Scalar& self, const Tensor& other) {
  return functional<kRemainder>(wrapped_number(self), other);
}

// ---- div with rounding_mode

// 0: none, 1: trunc, 2: floor
int rounding(const std::optional<c10::string_view>& mode) {
  if (!mode) return 0;
  TORCH_CHECK(*mode == "trunc" || *mode == "floor",
              "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *mode, "'");
  return *mode == "trunc" ? 1 : 2;
}
at::ScalarType div_type(int mode, const Tensor& a, const Tensor& b) {
  return mode == 0 ? binary_compute_type(kDiv, a, b) : binary_compute_type(kFloorDivide, a, b);
}
Tensor div_mode(const Tensor& a, const Tensor& b, std::optional<c10::string_view> mode) {
  const int m = rounding(mode);
  const auto type = div_type(m, a, b);
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>("aten::div", "Tensor_mode", a, b, mode);
  return m == 0   ? compute<kDiv>(type, a, b)
         : m == 1 ? compute<kDivTrunc>(type, a, b)
                  : compute<kFloorDivide>(type, a, b);
}
Tensor& div_mode_out(const Tensor& a, const Tensor& b, std::optional<c10::string_view> mode, Tensor& out) {
  const int m = rounding(mode);
  const auto type = div_type(m, a, b);
  if (type == at::ScalarType::Undefined || !is_plain(out))
    return fallback_call<Tensor>("aten::div", "out_mode", a, b, mode, out), out;
  return m == 0   ? compute_out<kDiv>(type, a, b, out)
         : m == 1 ? compute_out<kDivTrunc>(type, a, b, out)
                  : compute_out<kFloorDivide>(type, a, b, out);
}
Tensor& div_mode_write(Tensor& self, const Tensor& b, std::optional<c10::string_view> mode) {
  return div_mode_out(self, b, mode, self);
}

// ---- pow

bool integer_overflow_rule(at::ScalarType type, const Tensor& a, const Scalar& exponent) {
  return at::isIntegralType(type, true) && exponent.isIntegral(false) && exponent.toLong() < 0 && a.numel() > 0;
}

// Small exponents as PyTorch's CPU kernel computes them, which is exact where pow() rounds.
bool is_small(at::ScalarType type, const Scalar& exponent) {
  if (exponent.isComplex()) return false;
  const double e = exponent.toDouble();
  if (e == 1.0 || e == 2.0 || e == 3.0) return type != at::kBool;
  return !at::isIntegralType(type, true) && (e == 0.5 || e == -0.5 || e == -1.0 || e == -2.0);
}
Tensor multiplied_out(const Tensor& a, double exponent, const Tensor& out) {
  static const ElementwiseKernels square("square", 1), cube("cube", 1), inverse_square("inverse_square", 1);
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(a).build();
  (exponent == 2.0 ? square : exponent == 3.0 ? cube : inverse_square).run(iter, tag_of(a), ScalarParams{});
  return iter.output();
}
Tensor pow_small(const Tensor& a, double exponent) {
  if (exponent == 1.0) return a.clone();
  if (exponent == 0.5) return a.sqrt();
  if (exponent == -0.5) return a.rsqrt();
  if (exponent == -1.0) return a.reciprocal();
  if (!a.is_complex() || exponent == 2.0) return multiplied_out(a, exponent, Tensor());
  const Tensor square = multiplied_out(a, 2.0, Tensor());
  return exponent == 3.0 ? square.mul(a) : square.reciprocal();
}
Tensor& pow_small_out(const Tensor& a, double exponent, Tensor& out) {
  const bool here = std::fabs(exponent) >= 2.0 && out.scalar_type() == a.scalar_type() && out.device() == a.device();
  if (!here) return write_out("pow", exponent == 1.0 ? a : pow_small(a, exponent), out);
  multiplied_out(a, exponent, out);
  return out;
}

// The commonest exponents, told without a tensor for the number.
bool is_square_or_cube(const Tensor& a, const Scalar& exponent) {
  if (!exponent.isIntegral(false) || a.scalar_type() == at::kBool) return false;
  const int64_t e = exponent.toLong();
  return (e == 2 || e == 3) && is_plain(a) && tag_of(a) != Tag::none;
}

Tensor pow_number(const Tensor& a, const Scalar& exponent) {
  if (is_square_or_cube(a, exponent)) return pow_small(a, exponent.toDouble());
  if (is_plain_complex(a) && exponent.equal(0)) return at::ones_like(a);
  if (is_plain_complex(a) && exponent.equal(1)) return a.clone();
  const Tensor b = wrapped_number(exponent);
  const auto type = binary_compute_type(kPow, a, b);
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>("aten::pow", "Tensor_Scalar", a, exponent);
  TORCH_CHECK(!integer_overflow_rule(type, a, exponent), "Integers to negative integer powers are not allowed.");
  if (type != at::kFloat) check_holds(type, exponent);
  if (type == a.scalar_type() && is_small(type, exponent)) return pow_small(a, exponent.toDouble());
  return compute<kPow>(type, a, b);
}
Tensor& pow_number_out(const Tensor& a, const Scalar& exponent, Tensor& out) {
  if (is_plain_complex(a) && is_plain(out)) return write_out("pow", pow_number(a, exponent), out);
  const Tensor b = wrapped_number(exponent);
  const auto type = binary_compute_type(kPow, a, b);
  if (type == at::ScalarType::Undefined || !is_plain(out))
    return fallback_call<Tensor>("aten::pow", "Tensor_Scalar_out", a, exponent, out), out;
  TORCH_CHECK(!integer_overflow_rule(type, a, exponent), "Integers to negative integer powers are not allowed.");
  if (type != at::kFloat) check_holds(type, exponent);
  if (type == a.scalar_type() && is_small(type, exponent)) return pow_small_out(a, exponent.toDouble(), out);
  return compute_out<kPow>(type, a, b, out);
}
Tensor& pow_number_write(Tensor& self, const Scalar& exponent) { return pow_number_out(self, exponent, self); }

Tensor pow_of_number(const Scalar& base, const Tensor& exponent) {
  const Tensor a = wrapped_number(base);
  const auto type = binary_compute_type(kPow, a, exponent);
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>("aten::pow", "Scalar", base, exponent);
  // Contiguous whatever the exponent's layout, as on CPU.
  Tensor out = at::empty(exponent.sizes(), exponent.options().dtype(type));
  return compute_out<kPow>(type, a, exponent, out);
}
Tensor& pow_of_number_out(const Scalar& base, const Tensor& exponent, Tensor& out) {
  const Tensor a = wrapped_number(base);
  const auto type = binary_compute_type(kPow, a, exponent);
  if (type == at::ScalarType::Undefined || !is_plain(out))
    return fallback_call<Tensor>("aten::pow", "Scalar_out", base, exponent, out), out;
  return compute_out<kPow>(type, a, exponent, out);
}

Tensor& pow_write(Tensor& self, const Tensor& b) {
  const auto type = binary_compute_type(kPow, self, b);
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>("aten::pow_", "Tensor", self, b), self;
  return compute_out<kPow>(type, self, b, self);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  forms<kFloorDivide>().add(m, &functional<kFloorDivide>, &in_place<kFloorDivide>, &out_form<kFloorDivide>);
  m.impl("floor_divide_.Tensor", &in_place<kFloorDivide>);
  forms<kFmod>().add(m, &functional<kFmod>, &in_place<kFmod>, &out_form<kFmod>);
  forms<kRemainder>().add(m, &functional<kRemainder>, &in_place<kRemainder>, &out_form<kRemainder>);
  m.impl("remainder.Scalar_Tensor", &remainder_of_number);
  m.impl("div.Tensor_mode", &div_mode);
  m.impl("div_.Tensor_mode", &div_mode_write);
  m.impl("div.out_mode", &div_mode_out);
  m.impl("pow.Tensor_Tensor", &functional<kPow>);
  m.impl("pow.Tensor_Tensor_out", &out_form<kPow>);
  m.impl("pow_.Tensor", &pow_write);
  m.impl("pow.Tensor_Scalar", &pow_number);
  m.impl("pow.Tensor_Scalar_out", &pow_number_out);
  m.impl("pow_.Scalar", &pow_number_write);
  m.impl("pow.Scalar", &pow_of_number);
  m.impl("pow.Scalar_out", &pow_of_number_out);
}

}  // namespace mpsx::ops
