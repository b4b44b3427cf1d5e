// clamp, clamp_min and clamp_max, where bounds are numbers or tensors.
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <torch/library.h>

#include "ops/elementwise/binary.h"
#include "ops/elementwise/ternary.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using MaybeScalar = std::optional<Scalar>;
using MaybeTensor = std::optional<Tensor>;

at::ScalarType clamp_type(const Tensor& self, const Tensor& low, const Tensor& high) {
  if (!is_plain(self) || self.is_complex()) return at::ScalarType::Undefined;
  auto state = at::native::update_result_type_state(self, {});
  for (const Tensor* t : {&low, &high}) {
    if (!t->defined()) continue;
    if (!is_operand(*t)) return at::ScalarType::Undefined;
    state = at::native::update_result_type_state(*t, state);
  }
  const auto type = at::native::result_type(state);
  // If there is a single bound and it is a tensor, it may be bool. In all other cases, the CPU rejects bools.
  const Tensor& bound = low.defined() ? low : high;
  const bool one_of_bools = type == at::kBool && low.defined() != high.defined() &&
                            !bound.unsafeGetTensorImpl()->is_wrapped_number();
  return covers(Types::REAL, tag_of(type)) || one_of_bools ? type : at::ScalarType::Undefined;
}

// Clamps to two numbers, which are first rounded to the tensor's dtype, as in the CPU kernels.
bool between_numbers(at::ScalarType type, const Tensor& self, const Scalar& low, const Scalar& high, Tensor& out) {
  static const ElementwiseKernels kernels("clamp_numbers", 1);
  if (!accepts(out, type)) return false;
  const auto x = to_common(self, type);
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(out)
                                .add_const_input(*x)
                                .check_all_same_dtype(false)
                                .declare_static_dtype(type)
                                .build();
  kernels.run(iter, tag_of(type), scalar_params(low, high, tag_of(type)));
  if (!out.defined()) out = iter.output();
  return true;
}

constexpr BinaryRow kMaximum{"maximum", "", Types::ALL, Promotion::COMMON, ElementwiseKernels::Order::SWAPS};
constexpr BinaryRow kMinimum{"minimum", "", Types::ALL, Promotion::COMMON, ElementwiseKernels::Order::SWAPS};

// Computes min(max(self, low), high). Either bound may be absent. As in PyTorch, a NaN in a bound propagates.
bool between(at::ScalarType type, const Tensor& self, const Tensor& low, const Tensor& high, Tensor& out) {
  static const ElementwiseKernels both("clamp", 3), maximum = kMaximum.kernels(), minimum = kMinimum.kernels();
  TORCH_CHECK(low.defined() || high.defined(), "clamp: At least one of 'min' or 'max' must not be None");
  if (!low.defined()) return run_binary(kMinimum, minimum, type, self, high, ScalarParams{}, out);
  if (!high.defined()) return run_binary(kMaximum, maximum, type, self, low, ScalarParams{}, out);
  if (low.device().is_cpu() && high.device().is_cpu())
    return between_numbers(type, self, at::_local_scalar_dense(low), at::_local_scalar_dense(high), out);
  return run_ternary(both, type, self, low, high, ScalarParams{}, out);
}

bool clamp(const Tensor& self, const MaybeScalar& low, const MaybeScalar& high, Tensor& out) {
  const Tensor a = low ? wrapped_number(*low) : Tensor(), b = high ? wrapped_number(*high) : Tensor();
  const auto type = clamp_type(self, a, b);
  if (type == at::ScalarType::Undefined) return false;
  TORCH_CHECK(accepts(out, type) || out.is_same(self), "clamp: Found dtype ", out.scalar_type(), " but expected ",
              type);
  if (low) check_holds(type, *low);
  if (high) check_holds(type, *high);
  return ops::between(type, self, a, b, out);
}
bool clamp_tensor(const Tensor& self, const MaybeTensor& low, const MaybeTensor& high, Tensor& out) {
  const Tensor a = low.value_or(Tensor()), b = high.value_or(Tensor());
  const auto type = clamp_type(self, a, b);
  return type != at::ScalarType::Undefined && ops::between(type, self, a, b, out);
}
bool clamp_min(const Tensor& self, const Scalar& low, Tensor& out) { return clamp(self, low, std::nullopt, out); }
bool clamp_max(const Tensor& self, const Scalar& high, Tensor& out) { return clamp(self, std::nullopt, high, out); }
bool clamp_min_tensor(const Tensor& self, const Tensor& low, Tensor& out) {
  return clamp_tensor(self, low, std::nullopt, out);
}
bool clamp_max_tensor(const Tensor& self, const Tensor& high, Tensor& out) {
  return clamp_tensor(self, std::nullopt, high, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"clamp", &clamp>(m);
  op<"clamp.Tensor", &clamp_tensor>(m);
  op<"clamp_min", &clamp_min>(m);
  op<"clamp_max", &clamp_max>(m);
  op<"clamp_min.Tensor", &clamp_min_tensor>(m);
  op<"clamp_max.Tensor", &clamp_max_tensor>(m);
}

}  // namespace mpsx::ops
