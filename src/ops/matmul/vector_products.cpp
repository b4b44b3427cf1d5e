// Products of which a factor is a vector: dot, vdot, addmv, addr; mv and outer go through them.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/stack.h>
#include <ATen/native/LinearAlgebra.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/operator.h"
#include "ops/structured.h"
#include "vendor/cpu/vendor.h"

namespace mpsx::ops {
namespace {

using at::Scalar;

int64_t length(int64_t n) {
  TORCH_CHECK(n <= int64_t(INT32_MAX), "matmul: expected sizes below 2^31, got ", n);
  return n;
}
// Of one row; strides are the caller's.
MatmulParams product_params(const Tensor& out, int64_t depth, const Scalar& alpha, const Scalar& beta) {
  MatmulParams p{};
  p.rows = 1;
  p.depth = uint32_t(length(depth));
  p.activation = kActivationNone;
  set_factors(p, out, alpha, beta);
  return p;
}

bool addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha,
           Tensor& out) {
  if (!all_have_product_kernels(self, mat, vec)) return false;
  Structured<at::meta::structured_addmv> outputs(out);
  outputs.meta(self, mat, vec, beta, alpha);
  check_product_types(mat, vec);
  check_product_self(self, mat);
  if (out.defined() && !out.is_same(self)) at::assert_no_partial_overlap(out, self);
  const Tensor& result = outputs.result();
  if (result.is_complex() || result.is_alias_of(mat) || result.is_alias_of(vec) ||
      (result.is_alias_of(self) && !result.is_same(self))) {
    matrix_product(result.unsqueeze(1), mat, vec.unsqueeze(1), {alpha, beta, self.expand(result.sizes()).unsqueeze(1)});
  } else {
    // The row that the vector makes of the transposed matrix.
    MatmulParams p = product_params(result, vec.size(0), alpha, beta);
    p.columns = uint32_t(length(result.size(0)));
    p.a = {0, vec.stride(0), 0};
    p.b = {mat.stride(1), mat.stride(0), 0};
    p.out = {0, result.stride(0), 0};
    p.c = {0, self.dim() == 0 || self.size(0) == 1 ? 0 : self.stride(0), 0};
    launch_product(result, vec, mat, self, p);
  }
  return outputs.finish(out);
}

bool dot(const Tensor& self, const Tensor& other, Tensor& out) {
  if (!all_have_product_kernels(self, other)) return false;
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
  out = at::empty({}, self.options());
  if (out.is_complex()) {
    matrix_product(out.view({1, 1}), self.unsqueeze(0), other.unsqueeze(1));
    return true;
  }
  MatmulParams p = product_params(out, self.numel(), 1, 0);
  p.columns = 1;
  p.a = {0, self.stride(0), 0};
  p.b = {other.stride(0), 0, 0};
  launch_product(out, self, other, Tensor(), p);
  return true;
}
bool vdot(const Tensor& self, const Tensor& other, Tensor& out) {
  return all_have_product_kernels(self, other) && dot(self.conj(), other, out);
}

void launch_outer(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c, MatmulParams p) {
  static const KernelSet rows("outer_rows"), any("outer_any");
  if (out.numel() == 0) return;
  if (!p.has_c) p.c = p.out;
  const bool dense = p.b.column == 1 && p.c.column == 1 && p.out.column == 1;
  Launch((dense ? rows : any).get(tag_of(out)))
      .pointer(out.mutable_data_ptr())
      .pointer(a.const_data_ptr())
      .pointer(b.const_data_ptr())
      .pointer(p.has_c ? c.const_data_ptr() : out.const_data_ptr())
      .bytes(p)
      .threads(p.columns, p.rows)
      .run();
}

// Of two vectors as matrices of one column and one row.
bool addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta, const Scalar& alpha,
          Tensor& out) {
  const bool same = self.scalar_type() == vec1.scalar_type() && vec1.scalar_type() == vec2.scalar_type() &&
                    takes(out, self.scalar_type());
  const bool whole = !alpha.isFloatingPoint() && !beta.isFloatingPoint();
  if (!same || !all_have_product_kernels(self, vec1, vec2) || vec1.dim() != 1 || vec2.dim() != 1 ||
      !(whole || is_float_tag(tag_of(self)))) {
    // Not math_addr_out, which asks the dispatcher for addr. It would multiply in the operands' own types.
    const auto type = c10::promoteTypes(self.scalar_type(), c10::promoteTypes(vec1.scalar_type(), vec2.scalar_type()));
    const Tensor result = at::native::math_addr(self.to(type), vec1.to(type), vec2.to(type), beta, alpha);
    TORCH_CHECK(!out.is_same(self) || out.sizes() == result.sizes(), "addr: expected self of the result's shape ",
                result.sizes(), " for the in-place form, got ", out.sizes());
    return deliver("addr", result, out);
  }
  const c10::MaybeOwned<Tensor> expanded = at::expand_size(self, {vec1.size(0), vec2.size(0)}, "addr");
  const Tensor& c = *expanded;
  if (!out.defined())
    out = expanded->is_same(self) ? at::empty_like(c) : at::empty(c.sizes(), self.options());
  else if (!out.is_same(self) && at::native::resize_output(out, c.sizes()) && c.is_non_overlapping_and_dense())
    out.as_strided_(c.sizes(), c.strides());
  TORCH_CHECK(out.sizes() == c.sizes(), "addr: expected self of the result's shape ", c.sizes(),
              " for the in-place form, got ", out.sizes());
  for (const Tensor* t : {&c, &vec1, &vec2}) at::assert_no_partial_overlap(out, *t);
  const bool over_c = out.is_alias_of(c) && !(out.data_ptr() == c.data_ptr() && out.strides() == c.strides());
  if (out.is_complex() || over_c || out.is_alias_of(vec1) || out.is_alias_of(vec2)) {
    matrix_product(out, vec1.unsqueeze(1), vec2.unsqueeze(0), {alpha, beta, c});
    return true;
  }
  MatmulParams p = product_params(out, 1, alpha, beta);
  p.rows = uint32_t(length(out.size(0)));
  p.columns = uint32_t(length(out.size(1)));
  p.a = {vec1.stride(0), 0, 0};
  p.b = {0, vec2.stride(0), 0};
  p.c = {c.stride(0), c.stride(1), 0};
  p.out = {out.stride(0), out.stride(1), 0};
  if (is_float_tag(tag_of(out)))
    launch_outer(out, vec1, vec2, c, p);
  else
    launch_product(out, vec1, vec2, c, p);
  return true;
}

// Whether argument I of the last N has few elements.
template <size_t N, size_t I>
bool few_elements(const torch::jit::Stack& stack) {
  const Tensor& t = torch::jit::last(stack, N)[I].toTensor();
  return has_product_kernel(t) && !t.is_complex() && t.numel() <= kFewProducts;
}
// Whether the two vectors after the first of the last N arguments make a small matrix.
template <size_t N>
bool few_outer(const torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, N);
  const Tensor &self = arguments[0].toTensor(), &a = arguments[1].toTensor(), &b = arguments[2].toTensor();
  return all_have_product_kernels(self, a, b) && !a.is_complex() && a.numel() * b.numel() <= kFewProducts;
}
}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  vendor::Library(m, vendor::kGemm)
      .impl("addmv.out", out_form("addmv", &addmv), &few_elements<6, 1>)
      .impl("dot", functional_form("dot", &dot), &few_elements<2, 0>)
      .impl("vdot", functional_form("vdot", &vdot), &few_elements<2, 0>);
  vendor::Library(m, vendor::kAten)
      .impl("addr", functional_form("addr", &addr), &few_outer<5>)
      .impl("addr.out", out_form("addr", &addr), &few_outer<6>)
      .impl("addr_", in_place_form("addr", &addr), &few_outer<5>);
}

}  // namespace mpsx::ops
