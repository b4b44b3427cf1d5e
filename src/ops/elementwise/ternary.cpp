// where, masked_fill, clamp, addcmul, addcdiv, lerp.
#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/result_type.h>
#include <torch/library.h>

#include "ops/elementwise/binary.h"
#include "ops/elementwise/complex.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

bool usable(const Tensor& t) { return is_plain(t) || (t.device().is_cpu() && t.dim() == 0); }

// Operands a, b, c into `out`; those of one type but `a`, which may be a condition. At most one of b and c may lie on
// the CPU, as a kernel takes one scalar.
Tensor run(const ElementwiseKernels& kernels, at::ScalarType type, const Tensor& a, Tensor b, const Tensor& c,
           const ScalarParams& s, const Tensor& out, bool condition = false) {
  if (b.device().is_cpu() && c.device().is_cpu()) b = b.to(a.device(), type);
  if (condition && type == at::kComplexFloat) {  // where moves its eight bytes
    const auto bytes = [](const Tensor& t) { return t.defined() ? t.to(at::kComplexFloat).view(at::kLong) : t; };
    const Tensor result = run(kernels, at::kLong, a, bytes(b), bytes(c), s, bytes(out), true);
    return out.defined() ? out : result.view(type);
  }
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
  return iter.output();
}

// ---- where, masked_fill

at::ScalarType where_type(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (!is_plain(condition) || condition.scalar_type() != at::kBool || !usable(a) || !usable(b))
    return at::ScalarType::Undefined;
  const auto type = at::result_type(a, b);
  return tag_of(type) != Tag::none ? type : at::ScalarType::Undefined;
}
const ElementwiseKernels& where_kernels() {
  static const ElementwiseKernels k("where", 3);
  return k;
}
Tensor where_self(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const auto type = where_type(condition, a, b);
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>("aten::where", "self", condition, a, b);
  return run(where_kernels(), type, condition, a, b, ScalarParams{}, Tensor(), true);
}
Tensor& where_out(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  const auto type = where_type(condition, a, b);
  if (type == at::ScalarType::Undefined || !is_plain(out))
    return fallback_call<Tensor>("aten::where", "self_out", condition, a, b, out), out;
  if (out.scalar_type() != type) return write_out("where", where_self(condition, a, b), out);
  run(where_kernels(), type, condition, a, b, ScalarParams{}, out, true);
  return out;
}

bool fill_fits(const Tensor& self, const Tensor& mask) {
  return is_plain(self) && is_plain(mask) && mask.scalar_type() == at::kBool && tag_of(self) != Tag::none;
}
Tensor& masked_fill_write(Tensor& self, const Tensor& mask, const Scalar& value) {
  if (!fill_fits(self, mask)) return fallback_call<Tensor>("aten::masked_fill_", "Scalar", self, mask, value), self;
  TORCH_CHECK(at::is_expandable_to(mask.sizes(), self.sizes()), "masked_fill_: expected a mask that broadcasts to ",
              self.sizes(), ", got ", mask.sizes());
  check_holds(self.scalar_type(), value);
  run(where_kernels(), self.scalar_type(), mask.expand(self.sizes()), wrapped_number(value), self, ScalarParams{}, self,
      true);
  return self;
}
// A value of another type is looked at, as the CPU does with any.
void check_fill_value(const Tensor& self, const Tensor& value) {
  if (value.scalar_type() != self.scalar_type()) check_holds(self.scalar_type(), at::_local_scalar_dense(value));
}
Tensor& masked_fill_tensor_write(Tensor& self, const Tensor& mask, const Tensor& value) {
  TORCH_CHECK(value.dim() == 0, "masked_fill_: only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  if (!fill_fits(self, mask) || !usable(value))
    return fallback_call<Tensor>("aten::masked_fill_", "Tensor", self, mask, value), self;
  check_fill_value(self, value);
  TORCH_CHECK(at::is_expandable_to(mask.sizes(), self.sizes()), "masked_fill_: expected a mask that broadcasts to ",
              self.sizes(), ", got ", mask.sizes());
  run(where_kernels(), self.scalar_type(), mask.expand(self.sizes()), value, self, ScalarParams{}, self, true);
  return self;
}
template <typename Value>
Tensor masked_fill(const Tensor& self, const Tensor& mask, const Value& value) {
  if (!fill_fits(self, mask))
    return fallback_call<Tensor>("aten::masked_fill", std::is_same_v<Value, Scalar> ? "Scalar" : "Tensor", self, mask,
                                 value);
  const auto sizes = at::infer_size(self.sizes(), mask.sizes());
  Tensor other;
  if constexpr (std::is_same_v<Value, Scalar>) {
    check_holds(self.scalar_type(), value);
    other = wrapped_number(value);
  } else {
    TORCH_CHECK(value.dim() == 0, "masked_fill: only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
    check_fill_value(self, value);
    other = value;
  }
  const Tensor out = at::empty(sizes, self.options());  // contiguous, whatever self is: as the CPU's is
  return run(where_kernels(), self.scalar_type(), mask.expand(sizes), other, self.expand(sizes), ScalarParams{}, out,
             true);
}

// ---- clamp

at::ScalarType clamp_type(const Tensor& self, std::initializer_list<const Tensor*> bounds) {
  if (!is_plain(self)) return at::ScalarType::Undefined;
  auto state = at::native::update_result_type_state(self, {});
  for (const Tensor* t : bounds) {
    if (!usable(*t)) return at::ScalarType::Undefined;
    state = at::native::update_result_type_state(*t, state);
  }
  const auto type = at::native::result_type(state);
  // One bound that is a tensor may be of bools; with numbers, and with two bounds, the CPU refuses them.
  const bool one_of_bools =
      type == at::kBool && bounds.size() == 1 && !(*bounds.begin())->unsafeGetTensorImpl()->is_wrapped_number();
  return covers(Types::REAL, tag_of(type)) || one_of_bools ? type : at::ScalarType::Undefined;
}

constexpr BinaryRow kMaximum{"maximum", "", Types::ALL, Promotion::COMMON, ElementwiseKernels::Order::swaps};
constexpr BinaryRow kMinimum{"minimum", "", Types::ALL, Promotion::COMMON, ElementwiseKernels::Order::swaps};
const ElementwiseKernels& maximum_kernels() {
  static const ElementwiseKernels k("maximum", 2, ElementwiseKernels::Order::swaps);
  return k;
}
const ElementwiseKernels& minimum_kernels() {
  static const ElementwiseKernels k("minimum", 2, ElementwiseKernels::Order::swaps);
  return k;
}

// Both bounds are numbers, which the CPU's kernels round to the tensor's type.
Tensor clamp_numbers(at::ScalarType type, const Tensor& self, const Scalar& low, const Scalar& high,
                     const Tensor& out) {
  static const ElementwiseKernels kernels("clamp_numbers", 1);
  const auto x = to_common(self, type);
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(out)
                                .add_const_input(*x)
                                .check_all_same_dtype(false)
                                .declare_static_dtype(type)
                                .build();
  kernels.run(iter, tag_of(type), scalar_params(low, high, tag_of(type)));
  return iter.output();
}

// Whether clamp_numbers serves, the result being of the tensor's own type.
bool numbers_fit(const Tensor& self, const std::optional<Scalar>& low, const std::optional<Scalar>& high) {
  if (!low || !high || !is_plain(self)) return false;
  const bool real = covers(Types::FLOAT, tag_of(self)) && !low->isComplex() && !high->isComplex();
  return real || (covers(Types::INT, tag_of(self)) && low->isIntegral(false) && high->isIntegral(false));
}
bool numbers_fit(const Tensor&, const std::optional<Tensor>&, const std::optional<Tensor>&) { return false; }
Tensor clamp_numbers(at::ScalarType, const Tensor&, const Tensor&, const Tensor&, const Tensor&) { return Tensor(); }

// Max with the lower bound, then min with the upper; either may be absent. NaN in a bound wins, as in PyTorch.
Tensor clamp_tensors(at::ScalarType type, const Tensor& self, const Tensor& low, const Tensor& high,
                     const Tensor& out) {
  static const ElementwiseKernels both("clamp", 3);
  const auto number = [](const Tensor& t) { return t.defined() && t.device().is_cpu(); };
  if (number(low) && number(high) && is_plain(self))
    return clamp_numbers(type, self, at::_local_scalar_dense(low), at::_local_scalar_dense(high), out);
  if (low.defined() && high.defined()) return run(both, type, self, low, high, ScalarParams{}, out);
  if (!low.defined()) return run_binary(kMinimum, minimum_kernels(), type, self, high, ScalarParams{}, out);
  return run_binary(kMaximum, maximum_kernels(), type, self, low, ScalarParams{}, out);
}

Tensor bound(const std::optional<Scalar>& s) { return s ? wrapped_number(*s) : Tensor(); }
Tensor bound(const std::optional<Tensor>& t) { return t ? *t : Tensor(); }
void check_bound(at::ScalarType type, const std::optional<Scalar>& s) {
  if (s) check_holds(type, *s);
}
void check_bound(at::ScalarType, const std::optional<Tensor>&) {}

template <typename Bound>
Tensor& clamp_into(const char* overload, const Tensor& self, const std::optional<Bound>& low,
                   const std::optional<Bound>& high, Tensor& out) {
  if (numbers_fit(self, low, high) && is_plain(out) && out.scalar_type() == self.scalar_type()) {
    check_bound(self.scalar_type(), low);
    check_bound(self.scalar_type(), high);
    clamp_numbers(self.scalar_type(), self, *low, *high, out);
    return out;
  }
  const Tensor a = bound(low), b = bound(high);
  TORCH_CHECK(a.defined() || b.defined(), "clamp: At least one of 'min' or 'max' must not be None");
  auto type = at::ScalarType::Undefined;
  if (!self.is_complex() && is_plain(out))
    type = !a.defined() ? clamp_type(self, {&b}) : !b.defined() ? clamp_type(self, {&a}) : clamp_type(self, {&a, &b});
  if (type == at::ScalarType::Undefined)
    return fallback_call<Tensor>("aten::clamp", overload, self, low, high, out), out;
  check_bound(type, low);
  check_bound(type, high);
  if (out.scalar_type() != type) return write_out("clamp", clamp_tensors(type, self, a, b, Tensor()), out);
  clamp_tensors(type, self, a, b, out);
  return out;
}
template <typename Bound>
Tensor clamp_new(const char* overload, const Tensor& self, const std::optional<Bound>& low,
                 const std::optional<Bound>& high) {
  if (numbers_fit(self, low, high)) {
    check_bound(self.scalar_type(), low);
    check_bound(self.scalar_type(), high);
    return clamp_numbers(self.scalar_type(), self, *low, *high, Tensor());
  }
  const Tensor a = bound(low), b = bound(high);
  TORCH_CHECK(a.defined() || b.defined(), "clamp: At least one of 'min' or 'max' must not be None");
  auto type = at::ScalarType::Undefined;
  if (!self.is_complex())
    type = !a.defined() ? clamp_type(self, {&b}) : !b.defined() ? clamp_type(self, {&a}) : clamp_type(self, {&a, &b});
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>("aten::clamp", overload, self, low, high);
  check_bound(type, low);
  check_bound(type, high);
  return clamp_tensors(type, self, a, b, Tensor());
}

using MaybeScalar = std::optional<Scalar>;
using MaybeTensor = std::optional<Tensor>;
Tensor clamp(const Tensor& self, const MaybeScalar& low, const MaybeScalar& high) {
  return clamp_new("", self, low, high);
}
Tensor& clamp_write(Tensor& self, const MaybeScalar& low, const MaybeScalar& high) {
  return clamp_into("out", self, low, high, self);
}
Tensor& clamp_out(const Tensor& self, const MaybeScalar& low, const MaybeScalar& high, Tensor& out) {
  return clamp_into("out", self, low, high, out);
}
Tensor clamp_tensor(const Tensor& self, const MaybeTensor& low, const MaybeTensor& high) {
  return clamp_new("Tensor", self, low, high);
}
Tensor& clamp_tensor_write(Tensor& self, const MaybeTensor& low, const MaybeTensor& high) {
  return clamp_into("Tensor_out", self, low, high, self);
}
Tensor& clamp_tensor_out(const Tensor& self, const MaybeTensor& low, const MaybeTensor& high, Tensor& out) {
  return clamp_into("Tensor_out", self, low, high, out);
}
Tensor& clamp_min_out(const Tensor& self, const Scalar& low, Tensor& out) {
  return clamp_into<Scalar>("out", self, low, std::nullopt, out);
}
Tensor& clamp_max_out(const Tensor& self, const Scalar& high, Tensor& out) {
  return clamp_into<Scalar>("out", self, std::nullopt, high, out);
}
Tensor clamp_min(const Tensor& self, const Scalar& low) { return clamp_new<Scalar>("", self, low, std::nullopt); }
Tensor clamp_max(const Tensor& self, const Scalar& high) { return clamp_new<Scalar>("", self, std::nullopt, high); }
Tensor& clamp_min_write(Tensor& self, const Scalar& low) { return clamp_min_out(self, low, self); }
Tensor& clamp_max_write(Tensor& self, const Scalar& high) { return clamp_max_out(self, high, self); }
Tensor& clamp_min_tensor_out(const Tensor& self, const Tensor& low, Tensor& out) {
  return clamp_into<Tensor>("Tensor_out", self, low, std::nullopt, out);
}
Tensor& clamp_max_tensor_out(const Tensor& self, const Tensor& high, Tensor& out) {
  return clamp_into<Tensor>("Tensor_out", self, std::nullopt, high, out);
}

// ---- addcmul, addcdiv, lerp

at::ScalarType common_type(Types types, const Tensor& a, const Tensor& b, const Tensor& c) {
  if (!is_plain(a) || !usable(b) || !usable(c)) return at::ScalarType::Undefined;
  auto state = at::native::update_result_type_state(a, {});
  state = at::native::update_result_type_state(b, state);
  state = at::native::update_result_type_state(c, state);
  const auto type = at::native::result_type(state);
  const bool fits = covers(types, tag_of(type)) || type == at::kComplexFloat;
  return fits ? type : at::ScalarType::Undefined;
}

struct TernaryOp {
  const char* name;  // "aten::addcmul"
  const char* kernels;
  Types types;
};
constexpr TernaryOp kAddcmul{"aten::addcmul", "addcmul", Types::REAL};
constexpr TernaryOp kAddcdiv{"aten::addcdiv", "addcdiv", Types::FLOAT};

template <const TernaryOp& Op>
Tensor addc(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  static const ElementwiseKernels kernels(Op.kernels, 3);
  const auto type = common_type(Op.types, self, a, b);
  if (type == at::ScalarType::Undefined) return fallback_call<Tensor>(Op.name, "", self, a, b, value);
  check_holds(at::toOpMathType(type), value);
  return run(kernels, type, self, a, b, scalar_params(value), Tensor());
}
template <const TernaryOp& Op>
Tensor& addc_out(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value, Tensor& out) {
  static const ElementwiseKernels kernels(Op.kernels, 3);
  const auto type = common_type(Op.types, self, a, b);
  if (type == at::ScalarType::Undefined || !is_plain(out))
    return fallback_call<Tensor>(Op.name, "out", self, a, b, value, out), out;
  if (out.scalar_type() != type) return write_out(Op.kernels, addc<Op>(self, a, b, value), out);
  check_holds(at::toOpMathType(type), value);
  run(kernels, type, self, a, b, scalar_params(value), out);
  return out;
}
template <const TernaryOp& Op>
Tensor& addc_write(Tensor& self, const Tensor& a, const Tensor& b, const Scalar& value) {
  return addc_out<Op>(self, a, b, value, self);
}

bool lerp_fits(const Tensor& a, const Tensor& b, const Tensor& w) {
  const bool has_kernel = is_float_tag(tag_of(a)) || is_plain_complex(a);
  return is_plain(a) && is_plain(b) && has_kernel && a.scalar_type() == b.scalar_type() &&
         (!w.defined() ||
          (usable(w) && (w.scalar_type() == a.scalar_type() || w.unsafeGetTensorImpl()->is_wrapped_number())));
}
Tensor& lerp_into(const Tensor& a, const Tensor& b, const Tensor& w, const char* overload, Tensor& out,
                  const MaybeScalar& number) {
  static const ElementwiseKernels kernels("lerp", 3);
  if (number && is_plain_complex(a)) return lerp_into(a, b, wrapped_number(*number), overload, out, std::nullopt);
  if (!lerp_fits(a, b, number ? Tensor() : w) || !is_plain(out) || out.scalar_type() != a.scalar_type()) {
    if (number) return fallback_call<Tensor>("aten::lerp", overload, a, b, *number, out), out;
    return fallback_call<Tensor>("aten::lerp", overload, a, b, w, out), out;
  }
  if (!number) return run(kernels, a.scalar_type(), a, b, w, ScalarParams{}, out), out;
  static const ElementwiseKernels of_number("lerp_number", 2);
  check_holds(at::toOpMathType(a.scalar_type()), *number);
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(a).add_const_input(b).build();
  of_number.run(iter, tag_of(a), scalar_params(*number));
  return out;
}
Tensor& lerp_scalar_out(const Tensor& a, const Tensor& b, const Scalar& w, Tensor& out) {
  return lerp_into(a, b, Tensor(), "Scalar_out", out, w);
}
Tensor& lerp_tensor_out(const Tensor& a, const Tensor& b, const Tensor& w, Tensor& out) {
  return lerp_into(a, b, w, "Tensor_out", out, std::nullopt);
}
Tensor& lerp_scalar_write(Tensor& a, const Tensor& b, const Scalar& w) { return lerp_scalar_out(a, b, w, a); }
Tensor& lerp_tensor_write(Tensor& a, const Tensor& b, const Tensor& w) { return lerp_tensor_out(a, b, w, a); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("where.self", &where_self);
  m.impl("where.self_out", &where_out);
  m.impl("masked_fill_.Scalar", &masked_fill_write);
  m.impl("masked_fill_.Tensor", &masked_fill_tensor_write);
  m.impl("masked_fill.Scalar", &masked_fill<Scalar>);
  m.impl("masked_fill.Tensor", &masked_fill<Tensor>);
  m.impl("clamp", &clamp);
  m.impl("clamp_", &clamp_write);
  m.impl("clamp.out", &clamp_out);
  m.impl("clamp.Tensor", &clamp_tensor);
  m.impl("clamp_.Tensor", &clamp_tensor_write);
  m.impl("clamp.Tensor_out", &clamp_tensor_out);
  m.impl("clamp_min", &clamp_min);
  m.impl("clamp_min_", &clamp_min_write);
  m.impl("clamp_min.out", &clamp_min_out);
  m.impl("clamp_max", &clamp_max);
  m.impl("clamp_max_", &clamp_max_write);
  m.impl("clamp_max.out", &clamp_max_out);
  m.impl("clamp_min.Tensor_out", &clamp_min_tensor_out);
  m.impl("clamp_max.Tensor_out", &clamp_max_tensor_out);
  m.impl("addcmul", &addc<kAddcmul>);
  m.impl("addcmul_", &addc_write<kAddcmul>);
  m.impl("addcmul.out", &addc_out<kAddcmul>);
  m.impl("addcdiv", &addc<kAddcdiv>);
  m.impl("addcdiv_", &addc_write<kAddcdiv>);
  m.impl("addcdiv.out", &addc_out<kAddcdiv>);
  m.impl("lerp.Scalar_out", &lerp_scalar_out);
  m.impl("lerp.Tensor_out", &lerp_tensor_out);
  m.impl("lerp_.Scalar", &lerp_scalar_write);
  m.impl("lerp_.Tensor", &lerp_tensor_write);
}

}  // namespace mpsx::ops
