// Launches and registers the operators in binary.def and the binary operators in special.def.
#include "ops/elementwise/binary.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/sub.h>
#include <torch/library.h>

#include <utility>

namespace mpsx::ops {
namespace {

bool on_device(const Tensor& t) { return t.device().type() == at::kPrivateUse1; }
bool cpu_scalar(const Tensor& t) { return t.device().is_cpu() && t.dim() == 0; }

// Returns whether a kernel for inputs of different types can run on the operands, if `wide` comes first.
bool fits_mixed_kernel(const ElementwiseKernels& kernels, const Tensor& wide, const Tensor& narrow, const Tensor& out) {
  return on_device(wide) && on_device(narrow) && kernels.has_mixed(tag_of(wide), tag_of(narrow)) &&
         wide.sizes() == narrow.sizes() && wide.strides() == narrow.strides() && wide.is_non_overlapping_and_dense() &&
         (!out.defined() || out.strides() == wide.strides());
}

}  // namespace

at::ScalarType binary_compute_type(const BinaryRow& row, const ElementwiseKernels& kernels, const Tensor& a,
                                   const Tensor& b) {
  const bool fits =
      (on_device(a) || cpu_scalar(a)) && (on_device(b) || cpu_scalar(b)) && (on_device(a) || on_device(b));
  TORCH_CHECK(fits || a.device() == b.device() || cpu_scalar(a) || cpu_scalar(b), row.name,
              ": Expected all tensors to be on the same device, but found at least two devices, ", a.device(), " and ",
              b.device());
  if (!fits) return at::ScalarType::Undefined;
  const bool same = a.scalar_type() == b.scalar_type();
  if (!same && row.promotion == Promotion::SAME) return at::ScalarType::Undefined;
  at::ScalarType type = same ? a.scalar_type() : at::result_type(a, b);
  if (row.promotion == Promotion::FLOATING && at::isIntegralType(type, true))
    type = c10::typeMetaToScalarType(c10::get_default_dtype());
  const Tag tag = tag_of(type);
  return (tag == Tag::c64 ? kernels.has(tag) : covers(row.types, tag)) ? type : at::ScalarType::Undefined;
}

bool run_binary(const BinaryRow& row, const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a,
                const Tensor& b, const ScalarParams& scalars, Tensor& out) {
  const bool fits = accepts(out, row.promotion == Promotion::COMPARISON ? at::kBool : type);
  TORCH_CHECK(fits || row.promotion != Promotion::SAME, row.name,
              " is not yet implemented for ", out.is_complex() ? "complex tensors." : "tensors with different dtypes.");
  // If the output is also an operand, its shape must not change, even if the iterator works on a copy of that operand
  // with a different dtype. This happens in x.ldexp_(y), which is mul.out(x, 2^y, out=x), and if bools are compared
  // with numbers.
  const bool copied = (out.is_same(a) || out.is_same(b)) && !(fits && out.scalar_type() == type);
  TORCH_CHECK(!copied || out.sizes() == at::IntArrayRef(at::infer_size_dimvector(a.sizes(), b.sizes())),
              "output with shape ", out.sizes(), " doesn't match the broadcast shape ",
              at::IntArrayRef(at::infer_size(a.sizes(), b.sizes())));
  if (!fits) return false;
  at::TensorIterator iter;
  if (a.scalar_type() != b.scalar_type() && row.promotion == Promotion::COMMON) {
    const bool commutes = row.order == ElementwiseKernels::Order::SWAPS || scalars.f[0] == 1;  // alpha of a sum
    const bool swapped = commutes && b.scalar_type() == type;
    const Tensor &wide = swapped ? b : a, &narrow = swapped ? a : b;
    if (fits_mixed_kernel(kernels, wide, narrow, out)) {
      iter.build_borrowing_binary_op(out, wide, narrow);
      kernels.run(iter, tag_of(wide), scalars, tag_of(narrow));
      if (!out.defined()) out = iter.output();
      return true;
    }
  }
  const auto x = to_common(a, type), y = to_common(b, type);
  if (row.promotion == Promotion::COMPARISON)
    iter.build_borrowing_comparison_op(out, *x, *y);
  else if (row.promotion == Promotion::FLOATING)
    iter.build_borrowing_binary_float_op(out, *x, *y);
  else
    iter.build_borrowing_binary_op(out, *x, *y);
  kernels.run(iter, tag_of(type), scalars);
  if (!out.defined()) out = iter.output();
  return true;
}

namespace {

using Number = ElementwiseKernels::Number;
using Order = ElementwiseKernels::Order;
#define MPSX_BINARY(NAME, OVERLOAD, TYPES, RESULT, PROMOTION, ORDER, NUMBER, ...) \
  BinaryRow{#NAME, #OVERLOAD, Types::TYPES, Promotion::PROMOTION, Order::ORDER, Number::NUMBER},
#define MPSX_SPECIAL(...)
#define MPSX_SPECIAL_BINARY(NAME, OVERLOAD, PROMOTION, ...) \
  BinaryRow{#NAME, #OVERLOAD, Types::FLOAT, Promotion::PROMOTION, Order::FIXED},
#define MPSX_RARE_BINARY(NAME, TYPES, PROMOTION, ...) \
  BinaryRow{#NAME, "", Types::TYPES, Promotion::PROMOTION, Order::FIXED},
constexpr BinaryRow kBinary[] = {
#include "elementwise/binary.def"
#include "elementwise/special.def"
};

template <size_t I>
const ElementwiseKernels& binary_kernels() {
  static const ElementwiseKernels k = kBinary[I].kernels();
  return k;
}

template <size_t I>
bool binary(const Tensor& a, const Tensor& b, Tensor& out) {
  const auto type = binary_compute_type(kBinary[I], binary_kernels<I>(), a, b);
  return type != at::ScalarType::Undefined &&
         run_binary(kBinary[I], binary_kernels<I>(), type, a, b, ScalarParams{}, out);
}

template <size_t I>
bool scaled_binary(const Tensor& a, const Tensor& b, const at::Scalar& alpha, Tensor& out) {
  if constexpr (kBinary[I].types == Types::REAL) at::native::sub_check(a, b);
  const auto type = binary_compute_type(kBinary[I], binary_kernels<I>(), a, b);
  if (type == at::ScalarType::Undefined) return false;
  at::native::alpha_check(type, alpha);
  check_holds(type, alpha);
  return run_binary(kBinary[I], binary_kernels<I>(), type, a, b, scalar_params(alpha), out);
}

template <size_t I>
void register_binary(torch::Library& m) {
  constexpr OperatorName name(kBinary[I].name, kBinary[I].overload);
  if constexpr (kBinary[I].number == Number::ALPHA)
    op<name, &scaled_binary<I>>(m);
  else
    op<name, &binary<I>>(m);
}

// Python's shift expressions (`a << b`, `a <<= b`) call __lshift__, __ilshift__ and so on.
template <typename Other>
Tensor shift_left(const Tensor& a, const Other& b) { return a.bitwise_left_shift(b); }
template <typename Other>
Tensor& shift_left_in_place(Tensor& a, const Other& b) { return a.bitwise_left_shift_(b); }
template <typename Other>
Tensor shift_right(const Tensor& a, const Other& b) { return a.bitwise_right_shift(b); }
template <typename Other>
Tensor& shift_right_in_place(Tensor& a, const Other& b) { return a.bitwise_right_shift_(b); }

Tensor rsub(const Tensor& a, const Tensor& b, const at::Scalar& alpha) { return at::sub(b, a, alpha); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "rsub.Tensor", &rsub);
  impl(m, "__lshift__.Tensor", &shift_left<Tensor>);
  impl(m, "__lshift__.Scalar", &shift_left<at::Scalar>);
  impl(m, "__ilshift__.Tensor", &shift_left_in_place<Tensor>);
  impl(m, "__ilshift__.Scalar", &shift_left_in_place<at::Scalar>);
  impl(m, "__rshift__.Tensor", &shift_right<Tensor>);
  impl(m, "__rshift__.Scalar", &shift_right<at::Scalar>);
  impl(m, "__irshift__.Tensor", &shift_right_in_place<Tensor>);
  impl(m, "__irshift__.Scalar", &shift_right_in_place<at::Scalar>);
  [&]<size_t... I>(std::index_sequence<I...>) { (register_binary<I>(m), ...); }
  (std::make_index_sequence<std::size(kBinary)>());
}

}  // namespace mpsx::ops
