#include "ops/complex.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/var.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>

#include "ops/elementwise.h"

namespace mpsx::ops {
namespace {

// As the type, where it is complex and the tensor has kernels.
Tensor as_complex(const Tensor& x, at::ScalarType type) {
  if (type != at::kComplexFloat || !is_plain(x) || tag_of(x) == Tag::none) return Tensor();
  return x.to(type);
}
bool usable(const Tensor& t) { return is_plain(t) || (t.device().is_cpu() && t.dim() == 0); }

}  // namespace

Tensor complex_cumsum(const Tensor& x, int64_t dim, at::ScalarType type) {
  const Tensor z = as_complex(x, type);
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!z.defined()) return z;
  if (z.dim() == 0) return z.clone();
  return at::view_as_complex(at::view_as_real(z).cumsum(d).contiguous());
}

// In as many steps as doubling needs: each multiplies by what lies one stretch before, which then is twice as long.
Tensor complex_cumprod(const Tensor& x, int64_t dim, at::ScalarType type) {
  const Tensor z = as_complex(x, type);
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!z.defined()) return z;
  Tensor product = z.clone(at::MemoryFormat::Contiguous);
  const int64_t size = z.dim() == 0 ? 1 : z.size(d);
  for (int64_t stretch = 1; stretch < size; stretch *= 2) {
    const Tensor next = product.clone();
    next.slice(d, stretch).copy_(product.slice(d, stretch) * product.slice(d, 0, size - stretch));
    product = next;
  }
  return product;
}

// Halves are multiplied until one is left.
Tensor complex_prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, at::ScalarType type) {
  Tensor z = as_complex(x, type);
  if (!z.defined()) return z;
  if (!dim || z.dim() == 0) z = z.flatten();
  const int64_t d = dim ? at::maybe_wrap_dim(*dim, x.dim()) : 0;
  if (z.size(d) == 0) {
    c10::DimVector sizes(z.sizes());
    sizes[size_t(d)] = 1;
    z = at::ones(sizes, z.options());
  }
  for (int64_t size = z.size(d); size > 1; size = z.size(d)) {
    const int64_t half = size / 2;
    const Tensor product = z.slice(d, 0, half) * z.slice(d, half, 2 * half);
    z = size % 2 ? at::cat({product, z.slice(d, 2 * half)}, d) : product;
  }
  const Tensor result = keepdim && x.dim() > 0 ? z : z.squeeze(d);
  return result.is_alias_of(x) ? result.clone() : result;
}

std::tuple<Tensor, Tensor> complex_var_mean(const Tensor& x, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim) {
  if (!is_plain_complex(x)) return {};
  const bool is_number = x.dim() == 0;
  const Tensor z = is_number ? x.unsqueeze(0) : x;
  c10::DimVector dims;
  if (!is_number && dim)
    for (const int64_t d : *dim) dims.push_back(at::maybe_wrap_dim(d, z.dim()));
  if (dims.empty())
    for (int64_t d = 0; d < z.dim(); ++d) dims.push_back(d);
  const bool keeps = keepdim && !is_number;
  return {at::var(at::view_as_real(z), dims, correction, keeps).sum(-1), at::mean(z, dims, keeps)};
}

Tensor complex_addc(const Tensor& self, const Tensor& a, const Tensor& b, const at::Scalar& value, bool quotient) {
  if (!usable(self) || !usable(a) || !usable(b)) return Tensor();
  if (c10::promoteTypes(at::result_type(self, a), at::result_type(a, b)) != at::kComplexFloat) return Tensor();
  return at::add(self, quotient ? a / b : a * b, value);
}

// The form that is exact at both ends.
Tensor complex_lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  if (!is_plain_complex(a) || !is_plain_complex(b) || !usable(weight)) return Tensor();
  const Tensor w = weight.to(a.options()), way = b - a;
  return at::where(w.abs() < 0.5, a + w * way, b - way * (1 - w));
}

}  // namespace mpsx::ops
