// renorm, embedding_renorm_ and weight normalization, composed from a norm and elementwise operators.
#include <ATen/OpMathType.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/renorm.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "ops/differentiated.h"
#include "ops/elementwise/complex.h"
#include "ops/elementwise/elementwise.h"
#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using Pair = std::tuple<Tensor, Tensor>;

// Returns factors that scale down vectors with these norms to a norm of at most `max_norm`.
Tensor clip_factor(const Tensor& norms, double max_norm) {
  constexpr double kEpsilon = 1e-7;  // PyTorch's value; avoids a division by zero
  return at::where(norms > max_norm, max_norm / (norms + kEpsilon), at::ones({}, norms.options()));
}

// Clips the float32 vectors of x, whose norms are in `norm`. Writes to `out`, or allocates it.
Tensor clip_norm(const Tensor& x, const Tensor& norm, double max_norm, const Tensor& out) {
  static const ElementwiseKernels kernels("shortened", 2);
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(x).add_const_input(norm).build();
  kernels.run(iter, Tag::f32, scalar_params(max_norm));
  return iter.output();
}

// Returns all dimensions except `dim`.
c10::DimVector other_dims(const Tensor& t, int64_t dim) {
  c10::DimVector others;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d != dim) others.push_back(d);
  return others;
}

// Scales down each slice along `dim` whose norm exceeds `max_norm`.
bool renorm(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& max_norm, Tensor& out) {
  const bool complex = is_plain_complex(self);
  if (!complex && !has_float_kernel(self)) return false;
  Structured<at::meta::structured_renorm> outputs(out);
  outputs.meta(self, p, dim, max_norm);
  const c10::DimVector others = other_dims(self, at::maybe_wrap_dim(dim, self.dim()));
  const auto type = complex ? std::nullopt : std::make_optional(at::kFloat);
  const Tensor norm = at::linalg_vector_norm(self, p, others, true, type);
  Tensor result = outputs.result();
  if (complex)
    result.copy_(at::mul(self, clip_factor(norm, max_norm.toDouble())));
  else if (result.scalar_type() == at::kFloat && self.scalar_type() == at::kFloat)
    clip_norm(self, norm, max_norm.toDouble(), result);
  else
    result.copy_(clip_norm(self.to(at::kFloat), norm, max_norm.toDouble(), Tensor()));
  return outputs.return_or_copy(out);
}

// If autograd is needed, compose renorm from differentiable operators, because PyTorch's own derivative uses float64.
Tensor renorm_autograd(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& max_norm) {
  if (!is_differentiated(self)) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return at::renorm(self, p, dim, max_norm);
  }
  Structured<at::meta::structured_renorm> checked;
  checked.meta(self, p, dim, max_norm);
  const auto type = self.is_complex() ? std::nullopt : std::make_optional(at::toOpMathType(self.scalar_type()));
  const c10::DimVector others = other_dims(self, at::maybe_wrap_dim(dim, self.dim()));
  const Tensor norm = at::linalg_vector_norm(self, p, others, true, type);
  return at::mul(self, clip_factor(norm, max_norm.toDouble())).to(self.scalar_type());
}

bool has_norm_kernels(const Tensor& v, const Tensor& g) {
  return has_float_kernel(v) && has_float_kernel(g) && v.scalar_type() == g.scalar_type();
}
// Returns v * g / |v|, and |v|.
std::optional<Pair> weight_norm(const Tensor& v, const Tensor& g, int64_t dim) {
  if (!has_norm_kernels(v, g)) return std::nullopt;
  const Tensor norm = at::linalg_vector_norm(v, 2, other_dims(v, dim), true, at::kFloat).view_as(g);
  const auto like_cpu = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  return Pair((v * (g / norm)).to(v.scalar_type()), norm.to(like_cpu));
}
std::optional<Pair> weight_norm_backward(const Tensor& grad, const Tensor& v, const Tensor& g, const Tensor& norm,
                                         int64_t dim) {
  if (!has_norm_kernels(v, g) || !is_plain(grad) || grad.scalar_type() != v.scalar_type() || !is_plain(norm))
    return std::nullopt;
  const Tensor along = (grad * v).sum(other_dims(v, dim), true, at::kFloat).view_as(g) / norm;
  const Tensor grad_v = (grad - v * (along / norm)) * (g / norm);
  return Pair(grad_v.to(v.scalar_type()), along.to(g.scalar_type()));
}

// Scales down the rows of `self` that are looked up and whose norm exceeds `max_norm`, in place.
bool embedding_renorm(Tensor& self, const Tensor& indices, double max_norm, double p) {
  if (!has_float_kernel(self) || self.dim() != 2 || !is_plain(indices)) return false;
  if (indices.numel() == 0) return true;
  const Tensor unique_rows = std::get<0>(at::_unique2(indices.flatten().to(at::kLong)));
  const Tensor rows = self.index_select(0, unique_rows), norms = rows.norm(p, {1}, true, at::kFloat);
  self.index_copy_(0, unique_rows, rows.mul(clip_factor(norms, max_norm)).to(self.scalar_type()));
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"renorm", &ops::renorm>(m);
  op<"embedding_renorm_", &embedding_renorm>(m);
  op<"_weight_norm_interface", &ops::weight_norm>(m);
  op<"_weight_norm_interface_backward", &ops::weight_norm_backward>(m);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("renorm", &renorm_autograd); }

}  // namespace mpsx::ops
