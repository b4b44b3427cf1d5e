// Launchers and registration of every operator in binary.def, and of special.def those of two numbers.
#include "ops/elementwise/binary.h"

#include <ATen/ops/result_type.h>
#include <ATen/ops/sub.h>
#include <torch/library.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "ops/schema.h"

namespace mpsx::ops {
namespace {

bool on_device(const Tensor& t) { return t.device().type() == at::kPrivateUse1; }
bool cpu_scalar(const Tensor& t) { return t.device().is_cpu() && t.dim() == 0; }

#define MPSX_COMPLEX(...)
#define MPSX_COMPLEX_BINARY(NAME, ...) #NAME,
#define MPSX_COMPLEX_TERNARY(...)
constexpr std::string_view kOfComplex[] = {
#include "elementwise/complex.def"
};
bool has_kernels(const BinaryRow& row, Tag tag) {
  if (tag == Tag::c64) return std::find(std::begin(kOfComplex), std::end(kOfComplex), row.name) != std::end(kOfComplex);
  return covers(row.types, tag);
}

}  // namespace

at::ScalarType binary_compute_type(const BinaryRow& row, const Tensor& a, const Tensor& b) {
  const bool fits =
      (on_device(a) || cpu_scalar(a)) && (on_device(b) || cpu_scalar(b)) && (on_device(a) || on_device(b));
  TORCH_CHECK(fits || a.device() == b.device() || cpu_scalar(a) || cpu_scalar(b), row.name,
              ": expected all tensors to be on the same device, but found at least two devices, ", a.device(), " and ",
              b.device());
  if (!fits) return at::ScalarType::Undefined;
  at::ScalarType type = a.scalar_type() == b.scalar_type() ? a.scalar_type() : at::result_type(a, b);
  if (row.promotion == Promotion::FLOATING && at::isIntegralType(type, true))
    type = c10::typeMetaToScalarType(c10::get_default_dtype());
  return has_kernels(row, tag_of(type)) ? type : at::ScalarType::Undefined;
}

namespace {

at::TensorIterator run(const BinaryRow& row, const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a,
                       const Tensor& b, const ScalarParams& scalars, const Tensor& out) {
  const auto x = to_common(a, type), y = to_common(b, type);
  at::TensorIterator iter;
  if (row.promotion == Promotion::COMPARISON)
    iter.build_borrowing_comparison_op(out, *x, *y);
  else if (row.promotion == Promotion::FLOATING)
    iter.build_borrowing_binary_float_op(out, *x, *y);
  else
    iter.build_borrowing_binary_op(out, *x, *y);
  kernels.run(iter, tag_of(type), scalars);
  return iter;
}

}  // namespace

Tensor run_binary(const BinaryRow& row, const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a,
                  const Tensor& b, const ScalarParams& scalars, const Tensor& out) {
  return run(row, kernels, type, a, b, scalars, out).output();
}

Tensor& run_binary_out(const BinaryRow& row, const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a,
                       const Tensor& b, const ScalarParams& scalars, Tensor& out) {
  const at::ScalarType expected = row.promotion == Promotion::COMPARISON ? at::kBool : type;
  if (out.scalar_type() != expected) {
    TORCH_CHECK(c10::canCast(expected, out.scalar_type()), "result type ", expected,
                " can't be cast to the desired output type ", out.scalar_type());
    return write_out(row.name, run_binary(row, kernels, type, a, b, scalars, Tensor()), out);
  }
  run(row, kernels, type, a, b, scalars, out);
  return out;
}

namespace {

constexpr auto FIXED = ElementwiseKernels::Order::fixed;
constexpr auto SWAPS = ElementwiseKernels::Order::swaps;
#define MPSX_BINARY(NAME, OVERLOAD, TYPES, RESULT, PROMOTION, ORDER, ...) \
  BinaryRow{#NAME, #OVERLOAD, Types::TYPES, Promotion::PROMOTION, ORDER},
#define MPSX_SPECIAL(...)
#define MPSX_SPECIAL_BINARY(NAME, OVERLOAD, PROMOTION, ...) \
  BinaryRow{#NAME, #OVERLOAD, Types::FLOAT, Promotion::PROMOTION, FIXED},
#define MPSX_RARE_BINARY(NAME, TYPES, ...) BinaryRow{#NAME, "", Types::TYPES, Promotion::COMMON, FIXED},
constexpr BinaryRow kRows[] = {
#include "elementwise/binary.def"
#include "elementwise/special.def"
};
constexpr size_t kRowCount = std::size(kRows);

constexpr bool takes_alpha(const BinaryRow& row) {
  const std::string_view name = row.name;
  return name == "add" || name == "sub";
}

template <size_t I>
const ElementwiseKernels& kernels() {
  static const ElementwiseKernels k(kRows[I].name, 2, kRows[I].order);
  return k;
}
template <size_t I>
const Forms& forms() {
  static const Forms f(kRows[I].name, kRows[I].overload);
  return f;
}

void check_alpha(const char* op, at::ScalarType type, const at::Scalar& alpha) {
  TORCH_CHECK(!alpha.isBoolean() || type == at::kBool, op, ": Boolean alpha only supported for Boolean results.");
  TORCH_CHECK(at::isFloatingType(type) || at::isComplexType(type) || alpha.isIntegral(true), op,
              ": For integral input tensors, argument alpha must not be a floating point number.");
  TORCH_CHECK(at::isComplexType(type) || !alpha.isComplex(), op,
              ": For non-complex input tensors, argument alpha must not be a complex number.");
  check_holds(type, alpha);
}

// PyTorch refuses to subtract bool, and heaviside of two types: the fallback says so.
bool refused(const BinaryRow& row, const Tensor& a, const Tensor& b) {
  const std::string_view name = row.name;
  return (name == "sub" && (a.scalar_type() == at::kBool || b.scalar_type() == at::kBool)) ||
         (name == "heaviside" && a.scalar_type() != b.scalar_type());
}

template <size_t I, typename... Alpha>
Tensor functional(const Tensor& a, const Tensor& b, const Alpha&... alpha) {
  const auto type = binary_compute_type(kRows[I], a, b);
  if (type == at::ScalarType::Undefined || refused(kRows[I], a, b))
    return fallback_call<Tensor>(forms<I>().op.c_str(), kRows[I].overload, a, b, alpha...);
  (check_alpha(kRows[I].name, type, alpha), ...);
  return run_binary(kRows[I], kernels<I>(), type, a, b, scalar_params(alpha...), Tensor());
}

template <size_t I, typename... Alpha>
Tensor& in_place(Tensor& self, const Tensor& b, const Alpha&... alpha) {
  const auto type = binary_compute_type(kRows[I], self, b);
  if (type == at::ScalarType::Undefined || !on_device(self) || refused(kRows[I], self, b)) {
    fallback_call<Tensor>(forms<I>().in_place.c_str(), kRows[I].overload, self, b, alpha...);
    return self;
  }
  (check_alpha(kRows[I].name, type, alpha), ...);
  return run_binary_out(kRows[I], kernels<I>(), type, self, b, scalar_params(alpha...), self);
}

template <size_t I>
Tensor& out_plain(const Tensor& a, const Tensor& b, Tensor& out) {
  const auto type = binary_compute_type(kRows[I], a, b);
  if (type == at::ScalarType::Undefined || !on_device(out) || refused(kRows[I], a, b)) {
    fallback_call<Tensor>(forms<I>().op.c_str(), forms<I>().out.c_str(), a, b, out);
    return out;
  }
  return run_binary_out(kRows[I], kernels<I>(), type, a, b, ScalarParams{}, out);
}
template <size_t I>
Tensor& out_scaled(const Tensor& a, const Tensor& b, const at::Scalar& alpha, Tensor& out) {
  const auto type = binary_compute_type(kRows[I], a, b);
  if (type == at::ScalarType::Undefined || !on_device(out) || refused(kRows[I], a, b)) {
    fallback_call<Tensor>(forms<I>().op.c_str(), forms<I>().out.c_str(), a, b, alpha, out);
    return out;
  }
  check_alpha(kRows[I].name, type, alpha);
  return run_binary_out(kRows[I], kernels<I>(), type, a, b, scalar_params(alpha), out);
}

template <size_t I>
void register_row(torch::Library& m) {
  if constexpr (takes_alpha(kRows[I])) {
    forms<I>().add(m, &functional<I, at::Scalar>, &in_place<I, at::Scalar>, &out_scaled<I>);
  } else {
    forms<I>().add(m, &functional<I>, &in_place<I>, &out_plain<I>);
  }
}

// `a << b` and `a >> b` have operators of their own.
Tensor shift_left(const Tensor& a, const Tensor& b) { return a.bitwise_left_shift(b); }
Tensor shift_left_by(const Tensor& a, const at::Scalar& b) { return a.bitwise_left_shift(b); }
Tensor& shift_left_write(Tensor& a, const Tensor& b) { return a.bitwise_left_shift_(b); }
Tensor& shift_left_by_write(Tensor& a, const at::Scalar& b) { return a.bitwise_left_shift_(b); }
Tensor shift_right(const Tensor& a, const Tensor& b) { return a.bitwise_right_shift(b); }
Tensor shift_right_by(const Tensor& a, const at::Scalar& b) { return a.bitwise_right_shift(b); }
Tensor& shift_right_write(Tensor& a, const Tensor& b) { return a.bitwise_right_shift_(b); }
Tensor& shift_right_by_write(Tensor& a, const at::Scalar& b) { return a.bitwise_right_shift_(b); }

Tensor rsub(const Tensor& a, const Tensor& b, const at::Scalar& alpha) { return at::sub(b, a, alpha); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("rsub.Tensor", &rsub);
  m.impl("__lshift__.Tensor", &shift_left);
  m.impl("__lshift__.Scalar", &shift_left_by);
  m.impl("__ilshift__.Tensor", &shift_left_write);
  m.impl("__ilshift__.Scalar", &shift_left_by_write);
  m.impl("__rshift__.Tensor", &shift_right);
  m.impl("__rshift__.Scalar", &shift_right_by);
  m.impl("__irshift__.Tensor", &shift_right_write);
  m.impl("__irshift__.Scalar", &shift_right_by_write);
  [&]<size_t... I>(std::index_sequence<I...>) { (register_row<I>(m), ...); }(std::make_index_sequence<kRowCount>());
}

}  // namespace mpsx::ops
