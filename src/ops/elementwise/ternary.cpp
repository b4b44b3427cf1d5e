// where, masked_fill, addcmul, addcdiv, lerp.
#include "ops/elementwise/ternary.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/OpMathType.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include "ops/elementwise/complex.h"

namespace mpsx::ops {

using at::Scalar;

bool run_ternary(const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a, Tensor b, const Tensor& c,
                 const ScalarParams& s, Tensor& out, bool condition) {
  if (!accepts(out, type)) return false;
  if (b.device().is_cpu() && c.device().is_cpu()) b = b.to(a.device(), type);  // kernels accept at most one scalar
  const auto x = condition ? c10::MaybeOwned<Tensor>::borrowed(a) : to_common(a, type);
  const auto y = to_common(b, type), z = to_common(c, type);
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(out)
                                .add_const_input(*x)
                                .add_const_input(*y)
                                .add_const_input(*z)
                                .check_all_same_dtype(false)
                                .allow_cpu_scalars(true)
                                .declare_static_dtype(type)
                                .build();
  kernels.run(iter, tag_of(type), s);
  if (!out.defined()) out = iter.output();
  return true;
}

bool is_operand(const Tensor& t) { return is_plain(t) || (t.device().is_cpu() && t.dim() == 0); }

namespace {

// Selects from `a` where `condition` is true, and from `b` elsewhere. `condition` must be bool.
bool select(at::ScalarType type, const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  static const ElementwiseKernels kernels("where", 3);
  if (type != at::kComplexFloat) return run_ternary(kernels, type, condition, a, b, ScalarParams{}, out, true);
  const auto bytes = [](const Tensor& t) { return t.to(at::kComplexFloat).view(at::kLong); };
  Tensor result;
  run_ternary(kernels, at::kLong, condition, bytes(a), bytes(b), ScalarParams{}, result, true);
  return accepts(out, type) && return_or_copy("where", result.view(type), out);
}

bool where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  const Tensor& on_device = a.device().is_cpu() ? b : a;
  if (condition.device().is_cpu() && condition.dim() == 0 && is_plain(on_device))
    return where(condition.to(on_device.device()), a, b, out);
  if (!is_plain(condition) || condition.scalar_type() != at::kBool || !is_operand(a) || !is_operand(b)) return false;
  const auto type = at::result_type(a, b);
  TORCH_CHECK(accepts(out, type), "where: Expected out type to be ", type, " but got ", out.scalar_type());
  return tag_of(type) != Tag::none && select(type, condition, a, b, out);
}

// As on the CPU, a new output is contiguous, regardless of the layout of self.
bool fill_masked(const Tensor& self, const Tensor& mask, const Tensor& value, Tensor& out) {
  const bool in_place = out.is_same(self);
  if (value.device().is_cpu() && self.scalar_type() == at::kBool && value.scalar_type() != at::kBool)
    return fill_masked(self, mask, value.to(at::kBool), out);  // any nonzero value becomes true
  TORCH_CHECK(!in_place || at::is_expandable_to(mask.sizes(), self.sizes()),
              "output with shape ", self.sizes(), " doesn't match the broadcast shape ", mask.sizes());
  const auto sizes = in_place ? self.sizes().vec() : at::infer_size(self.sizes(), mask.sizes());
  if (!out.defined()) out = at::empty(sizes, self.options());
  return select(self.scalar_type(), mask.expand(sizes), value, self.expand(sizes), out);
}
bool has_masked_fill(const Tensor& self, const Tensor& mask, const Tensor& out) {
  return is_plain(self) && is_plain(mask) && mask.scalar_type() == at::kBool && tag_of(self) != Tag::none &&
         accepts(out, self.scalar_type());
}
bool masked_fill_number(const Tensor& self, const Tensor& mask, const Scalar& value, Tensor& out) {
  if (!has_masked_fill(self, mask, out)) return false;
  if (out.is_same(self) && at::has_internal_overlap(self) == at::MemOverlap::Yes)  // the CPU still allows this
    return fall_back<Tensor>("masked_fill_.Scalar", self, mask, value), true;
  check_holds(self.scalar_type(), value);
  return fill_masked(self, mask, wrapped_number(value), out);
}
bool masked_fill(const Tensor& self, const Tensor& mask, const Tensor& value, Tensor& out) {
  TORCH_CHECK(value.dim() == 0, "masked_fill: only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  if (!has_masked_fill(self, mask, out) || !is_operand(value)) return false;
  if (out.is_same(self) && at::has_internal_overlap(self) == at::MemOverlap::Yes)
    return fall_back<Tensor>("masked_fill_.Tensor", self, mask, value), true;
  if (value.scalar_type() != self.scalar_type()) check_holds(self.scalar_type(), at::_local_scalar_dense(value));
  return fill_masked(self, mask, value, out);
}

// ---- addcmul, addcdiv, lerp

at::ScalarType common_type(Types types, const Tensor& a, const Tensor& b, const Tensor& c) {
  if (!is_plain(a) || !is_operand(b) || !is_operand(c)) return at::ScalarType::Undefined;
  auto state = at::native::update_result_type_state(a, {});
  state = at::native::update_result_type_state(b, state);
  state = at::native::update_result_type_state(c, state);
  const auto type = at::native::result_type(state);
  const bool fits = covers(types, tag_of(type)) || type == at::kComplexFloat;
  return fits ? type : at::ScalarType::Undefined;
}

template <OperatorName NAME, Types TYPES>
bool add_of_two(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
  static const ElementwiseKernels kernels(NAME.text, 3);
  const auto type = common_type(TYPES, self, a, b);
  if (type == at::ScalarType::Undefined) return false;
  check_holds(at::toOpMathType(type), value);
  return run_ternary(kernels, type, self, a, b, scalar_params(value), out);
}

bool has_lerp(const Tensor& a, const Tensor& b) {
  return is_plain(a) && is_plain(b) && (is_float_tag(tag_of(a)) || is_plain_complex(a)) &&
         a.scalar_type() == b.scalar_type();
}
bool lerp(const Tensor& a, const Tensor& b, const Tensor& weight, Tensor& out) {
  static const ElementwiseKernels kernels("lerp", 3, ElementwiseKernels::Order::FIXED,
                                          ElementwiseKernels::Number::EXACT);
  const bool fits = has_lerp(a, b) && is_operand(weight) &&
                    (weight.scalar_type() == a.scalar_type() || weight.unsafeGetTensorImpl()->is_wrapped_number());
  return fits && run_ternary(kernels, a.scalar_type(), a, b, weight, ScalarParams{}, out);
}
bool lerp_number(const Tensor& a, const Tensor& b, const Scalar& weight, Tensor& out) {
  static const ElementwiseKernels kernels("lerp_number", 2);
  if (is_plain_complex(a)) return ops::lerp(a, b, wrapped_number(weight), out);
  if (!has_lerp(a, b) || !accepts(out, a.scalar_type())) return false;
  check_holds(at::toOpMathType(a.scalar_type()), weight);
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(a).add_const_input(b).build();
  kernels.run(iter, tag_of(a), scalar_params(weight));
  if (!out.defined()) out = iter.output();
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"where.self", &where>(m);
  op<"masked_fill.Scalar", &masked_fill_number>(m);
  op<"masked_fill.Tensor", &masked_fill>(m);
  op<"addcmul", &add_of_two<"addcmul", Types::REAL>>(m);
  op<"addcdiv", &add_of_two<"addcdiv", Types::FLOAT>>(m);
  op<"lerp.Scalar", &lerp_number>(m);
  op<"lerp.Tensor", &lerp>(m);
}

}  // namespace mpsx::ops
