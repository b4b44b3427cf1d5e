// Operators that are composed of a few others.
#include "ops/composed/composed.h"

#include <ATen/ExpandUtils.h>
#include <ATen/OpMathType.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/is_nonzero_native.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/renorm.h>
#include <ATen/ops/renorm_meta.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include "ops/differentiated.h"
#include "ops/elementwise/complex.h"
#include "ops/elementwise/copy.h"
#include "ops/elementwise/elementwise.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/structured.h"
#include "reduce/params.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using Pair = std::tuple<Tensor, Tensor>;

std::optional<bool> equal(const Tensor& self, const Tensor& other) {
  const bool fits =
      (has_number_kernel(self) && has_number_kernel(other)) || (is_plain_complex(self) && is_plain_complex(other));
  if (!fits || self.scalar_type() != other.scalar_type()) return std::nullopt;
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

void assert_true(const Tensor& self, c10::string_view message) { TORCH_CHECK(at::native::is_nonzero(self), message); }
void assert_async(const Tensor& self) { assert_true(self, "Expected Tensor with single nonzero value, but got zero"); }

Tensor& eye_out(int64_t rows, int64_t columns, Tensor& out) {
  TORCH_CHECK(rows >= 0, "n must be greater or equal to 0, got ", rows);
  TORCH_CHECK(columns >= 0, "m must be greater or equal to 0, got ", columns);
  out.resize_({rows, columns}).zero_();
  out.diagonal().fill_(1);
  return out;
}
Tensor& eye_square_out(int64_t rows, Tensor& out) { return eye_out(rows, rows, out); }

Tensor trace(const Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  const int64_t count = std::min(self.size(0), self.size(1));
  if (!has_number_kernel(self) || self.scalar_type() == at::kBool || count > int64_t(UINT32_MAX))
    return self.diagonal().sum();
  static const KernelSet kernels("trace");
  const bool whole = at::isIntegralType(self.scalar_type(), true);
  const Tensor out = at::empty({}, whole ? self.options().dtype(at::kLong) : self.options());
  Launch(kernels.get(tag_of(self)))
      .pointer(out.mutable_data_ptr())
      .pointer(self.const_data_ptr())
      .bytes(TraceParams{self.stride(0) + self.stride(1), uint32_t(count)})
      .groups({1}, std::min(256u, runtime::threads_for_row(uint32_t(count))))
      .work(uint64_t(count))
      .run();
  return out;
}

// Makes complex numbers of two halves. `out` takes the shape that elementwise operators give it.
void run_halves(const ElementwiseKernels& kernels, const Tensor& a, const Tensor& b, Tensor& out) {
  if (!out.defined()) out = at::empty({0}, a.options().dtype(at::toComplexType(a.scalar_type())));
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .check_all_same_dtype(false)
                                .set_check_mem_overlap(false)
                                .add_output(out)
                                .add_const_input(a)
                                .add_const_input(b)
                                .build();
  kernels.run(iter, tag_of(a), {});
}

// In torch's words.
bool fits_halves(const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto real = [](const Tensor& t) {
    return t.scalar_type() == at::kHalf || t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
  };
  TORCH_CHECK(real(a) && real(b), "Expected both inputs to be Half, Float or Double tensors but got ", a.scalar_type(),
              " and ", b.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ", a.scalar_type(),
              " but got scalar type ", b.scalar_type(), " for second argument");
  const at::ScalarType type = at::toComplexType(a.scalar_type());
  TORCH_CHECK(takes(out, type), "Expected object of scalar type ", type, " but got scalar type ", out.scalar_type(),
              " for argument 'out'");
  return a.scalar_type() != at::kDouble && is_plain(a) && is_plain(b);
}
bool complex(const Tensor& real, const Tensor& imaginary, Tensor& out) {
  static const ElementwiseKernels kernels("complex", 2);
  if (!fits_halves(real, imaginary, out)) return false;
  run_halves(kernels, real, imaginary, out);
  return true;
}
bool polar(const Tensor& abs, const Tensor& angle, Tensor& out) {
  static const ElementwiseKernels kernels("polar", 2);
  if (!fits_halves(abs, angle, out) || abs.scalar_type() != at::kFloat) return false;
  run_halves(kernels, abs, angle, out);
  return true;
}
bool conj_physical(const Tensor& self, Tensor& out) {
  static const ElementwiseKernels kernels("conj_physical", 1);
  TORCH_CHECK(takes(out, self.scalar_type()), "Found dtype ", out.scalar_type(), " but expected ", self.scalar_type());
  if (is_plain(self) && !self.is_complex() && out.defined()) return deliver("conj_physical", self, out);
  if (!is_plain_complex(self) || !takes(out, at::kComplexFloat)) return false;
  at::TensorIterator iter = at::TensorIterator::unary_op(out, self);
  kernels.run(iter, Tag::c64, {});
  if (!out.defined()) out = iter.output();
  return true;
}

Tensor& logspace_out(const Scalar& start, const Scalar& end, int64_t steps, double base, Tensor& out) {
  if (!has_float_kernel(out) || start.isComplex() || end.isComplex())
    return fall_back<Tensor>("logspace.out", start, end, steps, base, out), out;
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
  if (steps == 0) return out;
  const Tensor exponents = at::linspace(start, end, steps, out.options().dtype(at::kFloat));
  out.copy_(at::pow(Scalar(base), exponents).view(out.sizes()));
  return out;
}

Tensor channel_shuffle(const Tensor& self, int64_t groups) {
  TORCH_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ", self.sizes());
  const int64_t channels = self.size(1);
  TORCH_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  TORCH_CHECK(channels % groups == 0, "Number of channels must be divisible by groups. Got ", channels,
              " channels and ", groups, " groups.");
  const auto format = self.suggest_memory_format();
  if (movable(self)) {  // channel k of group g becomes channel g of group k
    const Tensor out = at::empty(self.sizes(), self.options().memory_format(format));
    c10::DimVector sizes(self.sizes()), from(self.strides()), to(out.strides());
    sizes[1] = groups;
    sizes.insert(sizes.begin() + 1, channels / groups);
    from.insert(from.begin() + 2, from[1] * (channels / groups));
    to.insert(to.begin() + 1, to[1] * groups);
    if (out.numel() > 0)
      copy_strided(out.mutable_data_ptr(), self.const_data_ptr(), out.element_size(),
                   Strided<2>::ordered(sizes, {to, from}));
    return out;
  }
  return self.unflatten(1, {groups, channels / groups}).transpose(1, 2).flatten(1, 2).contiguous(format);
}

// float32 x, of vectors with these norms, into `out` (undefined: allocated here).
Tensor shortened(const Tensor& x, const Tensor& norm, double longest, const Tensor& out) {
  static const ElementwiseKernels kernels("shortened", 2);
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(x).add_const_input(norm).build();
  kernels.run(iter, Tag::f32, scalar_params(longest));
  return iter.output();
}

// Every dimension but one.
c10::DimVector other_dims(const Tensor& t, int64_t dim) {
  c10::DimVector others;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d != dim) others.push_back(d);
  return others;
}

// Sub-tensors along `dim` that are longer than the norm allows are made as long as it allows.
bool renorm(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& longest, Tensor& out) {
  const bool complex = is_plain_complex(self);
  if (!complex && !has_float_kernel(self)) return false;
  Structured<at::meta::structured_renorm> outputs(out);
  outputs.meta(self, p, dim, longest);
  const c10::DimVector others = other_dims(self, at::maybe_wrap_dim(dim, self.dim()));
  const auto type = complex ? std::nullopt : std::make_optional(at::kFloat);
  const Tensor norm = at::linalg_vector_norm(self, p, others, true, type);
  Tensor result = outputs.result();
  if (complex)
    result.copy_(at::mul(self, shortening(norm, longest.toDouble())));
  else if (result.scalar_type() == at::kFloat && self.scalar_type() == at::kFloat)
    shortened(self, norm, longest.toDouble(), result);
  else
    result.copy_(shortened(self.to(at::kFloat), norm, longest.toDouble(), Tensor()));
  return outputs.finish(out);
}

// A differentiated renorm is composed of differentiable operators: torch's own formula computes in float64.
Tensor renorm_autograd(const Tensor& self, const Scalar& p, int64_t dim, const Scalar& longest) {
  if (!is_differentiated(self)) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    return at::renorm(self, p, dim, longest);
  }
  Structured<at::meta::structured_renorm> checked;
  checked.meta(self, p, dim, longest);
  const auto type = self.is_complex() ? std::nullopt : std::make_optional(at::toOpMathType(self.scalar_type()));
  const c10::DimVector others = other_dims(self, at::maybe_wrap_dim(dim, self.dim()));
  const Tensor norm = at::linalg_vector_norm(self, p, others, true, type);
  return at::mul(self, shortening(norm, longest.toDouble())).to(self.scalar_type());
}

bool normalizes(const Tensor& v, const Tensor& g) {
  return has_float_kernel(v) && has_float_kernel(g) && v.scalar_type() == g.scalar_type();
}
// v g / |v|, and |v|.
std::optional<Pair> weight_norm(const Tensor& v, const Tensor& g, int64_t dim) {
  if (!normalizes(v, g)) return std::nullopt;
  const Tensor norm = at::linalg_vector_norm(v, 2, other_dims(v, dim), true, at::kFloat).view_as(g);
  const auto like_cpu = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  return Pair((v * (g / norm)).to(v.scalar_type()), norm.to(like_cpu));
}
std::optional<Pair> weight_norm_backward(const Tensor& grad, const Tensor& v, const Tensor& g, const Tensor& norm,
                                         int64_t dim) {
  if (!normalizes(v, g) || !is_plain(grad) || grad.scalar_type() != v.scalar_type() || !is_plain(norm))
    return std::nullopt;
  const Tensor along = (grad * v).sum(other_dims(v, dim), true, at::kFloat).view_as(g) / norm;
  const Tensor grad_v = (grad - v * (along / norm)) * (g / norm);
  return Pair(grad_v.to(v.scalar_type()), along.to(g.scalar_type()));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"equal", &ops::equal>(m);
  m.impl("_assert_async", &assert_async);
  m.impl("_assert_async.msg", &assert_true);
  m.impl("eye.out", &eye_square_out);
  m.impl("eye.m_out", &eye_out);
  m.impl("trace", &trace);
  op<"complex", &ops::complex>(m);
  op<"polar", &ops::polar>(m);
  op<"conj_physical", &ops::conj_physical>(m);
  m.impl("logspace.out", &logspace_out);
  m.impl("channel_shuffle", &channel_shuffle);
  m.impl("native_channel_shuffle", &channel_shuffle);
  op<"renorm", &ops::renorm>(m);
  op<"_weight_norm_interface", &ops::weight_norm>(m);
  op<"_weight_norm_interface_backward", &ops::weight_norm_backward>(m);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("renorm", &renorm_autograd); }

}  // namespace mpsx::ops
