#include "ops/elementwise/complex.h"

#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/var.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <torch/library.h>

#include "elementwise/complex_params.h"
#include "ops/elementwise/elementwise.h"
#include "ops/indexing.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

// Casts `x` to `type` if `type` is complex64 and kernels support the dtype of `x`. Otherwise, returns an undefined
// tensor.
Tensor as_complex(const Tensor& x, at::ScalarType type) {
  if (type != at::kComplexFloat || !is_plain(x) || tag_of(x) == Tag::none) return Tensor();
  return x.to(type);
}

// Returns whether rows (or columns) are so short or so numerous that each thread should multiply a whole one.
bool fits_one_thread(const Blocks& b) {
  constexpr int64_t kShort = 256, kMany = 4096;
  return b.size <= kShort || b.outer * b.inner >= kMany;
}

// Computes the products of the rows or columns of a contiguous z, or all of their prefix products.
void launch_prod(const KernelSet& kernels, const Tensor& out, const Tensor& z, const Blocks& b) {
  if (out.numel() == 0) return;
  // Process rows as if they were columns with different strides.
  const bool rows = b.inner == 1;
  const int64_t count = rows ? b.outer : b.inner;
  const uint32_t size = grid_size("prod", b.size), lines = grid_size("prod", count);
  const ComplexProductParams p{size, lines, rows ? size : 1, rows ? 1 : lines, uint64_t(b.size) * uint64_t(count)};
  Launch(kernels.get())
      .outputs(out)
      .inputs(z)
      .bytes(p)
      .threads(lines, grid_size("prod", rows ? 1 : b.outer))
      .work(size)
      .run();
}

// Builds complex numbers from two real tensors. TensorIterator resizes `out` if necessary.
void run_complex(const ElementwiseKernels& kernels, const Tensor& a, const Tensor& b, Tensor& out) {
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

// The error messages are the same as PyTorch's.
bool check_real_imaginary(const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto real = [](const Tensor& t) {
    return t.scalar_type() == at::kHalf || t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
  };
  TORCH_CHECK(real(a) && real(b), "Expected both inputs to be Half, Float or Double tensors but got ", a.scalar_type(),
              " and ", b.scalar_type());
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "Expected object of scalar type ", a.scalar_type(),
              " but got scalar type ", b.scalar_type(), " for second argument");
  const at::ScalarType type = at::toComplexType(a.scalar_type());
  TORCH_CHECK(accepts(out, type), "Expected object of scalar type ", type, " but got scalar type ", out.scalar_type(),
              " for argument 'out'");
  return a.scalar_type() != at::kDouble && is_plain(a) && is_plain(b);
}
bool complex(const Tensor& real, const Tensor& imaginary, Tensor& out) {
  static const ElementwiseKernels kernels("complex", 2);
  if (!check_real_imaginary(real, imaginary, out)) return false;
  run_complex(kernels, real, imaginary, out);
  return true;
}
bool polar(const Tensor& abs, const Tensor& angle, Tensor& out) {
  static const ElementwiseKernels kernels("polar", 2);
  if (!check_real_imaginary(abs, angle, out) || abs.scalar_type() != at::kFloat) return false;
  run_complex(kernels, abs, angle, out);
  return true;
}
bool conj_physical(const Tensor& self, Tensor& out) {
  static const ElementwiseKernels kernels("conj_physical", 1);
  TORCH_CHECK(accepts(out, self.scalar_type()), "Found dtype ", out.scalar_type(), " but expected ",
              self.scalar_type());
  if (is_plain(self) && !self.is_complex() && out.defined()) return return_or_copy("conj_physical", self, out);
  if (!is_plain_complex(self) || !accepts(out, at::kComplexFloat)) return false;
  at::TensorIterator iter = at::TensorIterator::unary_op(out, self);
  kernels.run(iter, Tag::c64, {});
  if (!out.defined()) out = iter.output();
  return true;
}

}  // namespace

Tensor complex_cumsum(const Tensor& x, int64_t dim, at::ScalarType type) {
  const Tensor z = as_complex(x, type);
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!z.defined()) return z;
  if (z.dim() == 0) return z.clone();
  return at::view_as_complex(at::view_as_real(z).cumsum(d).contiguous());
}

// Computes prefix products in log2(size) steps. Each step multiplies every element by the element that is `prefix`
// positions before it.
Tensor complex_cumprod(const Tensor& x, int64_t dim, at::ScalarType type) {
  const Tensor z = as_complex(x, type);
  const int64_t d = at::maybe_wrap_dim(dim, x.dim());
  if (!z.defined()) return z;
  if (const Blocks blocks(z.sizes(), d); fits_one_thread(blocks)) {
    static const KernelSet kernels("complex_cumprod");
    const Tensor result = at::empty(z.sizes(), z.options());
    launch_prod(kernels, result, z.contiguous(), blocks);
    return result;
  }
  Tensor product = z.clone(at::MemoryFormat::Contiguous);
  const int64_t size = z.dim() == 0 ? 1 : z.size(d);
  for (int64_t prefix = 1; prefix < size; prefix *= 2) {
    const Tensor next = product.clone();
    next.slice(d, prefix).copy_(product.slice(d, prefix) * product.slice(d, 0, size - prefix));
    product = next;
  }
  return product;
}

// Multiplies the first half by the second half until a single element is left.
Tensor complex_prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, at::ScalarType type) {
  Tensor z = as_complex(x, type);
  if (!z.defined()) return z;
  if (!dim || z.dim() == 0) z = z.flatten();
  const int64_t d = dim ? at::maybe_wrap_dim(*dim, x.dim()) : 0;
  if (const Blocks blocks(z.sizes(), d); fits_one_thread(blocks)) {
    static const KernelSet kernels("complex_prod");
    c10::DimVector sizes(z.sizes());
    if (keepdim && x.dim() > 0)
      sizes[size_t(d)] = 1;
    else
      sizes.erase(sizes.begin() + d);
    const Tensor result = at::empty(sizes, z.options());
    launch_prod(kernels, result, z.contiguous(), blocks);
    return result;
  }
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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"complex", &ops::complex>(m);
  op<"polar", &ops::polar>(m);
  op<"conj_physical", &ops::conj_physical>(m);
}

}  // namespace mpsx::ops
