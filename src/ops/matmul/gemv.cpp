// dot, vdot and addmv, which are GEMVs, and addr, which is an outer product. mv and outer call them.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/stack.h>
#include <ATen/native/LinearAlgebra.h>
#include <ATen/ops/addmv_meta.h>
#include <ATen/ops/addr_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
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
// Returns parameters for a single output row. The caller sets the strides.
MatmulParams gemv_params(const Tensor& out, int64_t K, const Scalar& alpha, const Scalar& beta) {
  MatmulParams p{};
  p.M = 1;
  p.K = uint32_t(length(K));
  p.activation = kActivationNone;
  set_alpha_beta(p, out, alpha, beta);
  return p;
}

bool addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha,
           Tensor& out) {
  if (!all_have_matmul_kernels(self, mat, vec)) return false;
  Structured<at::meta::structured_addmv> outputs(out);
  outputs.meta(self, mat, vec, beta, alpha);
  check_same_dtype(mat, vec);
  check_self_dtype(self, mat);
  if (out.defined() && !out.is_same(self)) at::assert_no_partial_overlap(out, self);
  const Tensor& result = outputs.result();
  if (result.is_complex() || result.is_alias_of(mat) || result.is_alias_of(vec) ||
      (result.is_alias_of(self) && !result.is_same(self))) {
    gemm(result.unsqueeze(1), mat, vec.unsqueeze(1), {alpha, beta, self.expand(result.sizes()).unsqueeze(1)});
  } else {
    // Compute the output column as a row: multiply the vector by the transposed matrix.
    MatmulParams p = gemv_params(result, vec.size(0), alpha, beta);
    p.N = uint32_t(length(result.size(0)));
    p.a = {0, vec.stride(0), 0};
    p.b = {mat.stride(1), mat.stride(0), 0};
    p.out = {0, result.stride(0), 0};
    p.c = {0, self.dim() == 0 || self.size(0) == 1 ? 0 : self.stride(0), 0};
    launch_gemm(result, vec, mat, self, p);
  }
  return outputs.return_or_copy(out);
}

bool dot(const Tensor& self, const Tensor& other, Tensor& out) {
  if (!all_have_matmul_kernels(self, other)) return false;
  TORCH_CHECK(self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ", other.dim(),
              "D tensors");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "dot : expected both vectors to have same dtype, but found ",
              self.scalar_type(), " and ", other.scalar_type());
  TORCH_CHECK(self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(), "] and src [",
              other.numel(), "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
              " elements respectively");
  out = at::empty({}, self.options());
  if (out.is_complex()) {
    gemm(out.view({1, 1}), self.unsqueeze(0), other.unsqueeze(1));
    return true;
  }
  MatmulParams p = gemv_params(out, self.numel(), 1, 0);
  p.N = 1;
  p.a = {0, self.stride(0), 0};
  p.b = {other.stride(0), 0, 0};
  launch_gemm(out, self, other, Tensor(), p);
  return true;
}
bool vdot(const Tensor& self, const Tensor& other, Tensor& out) {
  return all_have_matmul_kernels(self, other) && dot(self.conj(), other, out);
}

void launch_outer(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c, MatmulParams p) {
  static const KernelSet dense_kernels("outer_dense"), strided_kernels("outer_strided");
  if (out.numel() == 0) return;
  if (!p.has_c) p.c = p.out;
  const bool dense = p.b.column == 1 && p.c.column == 1 && p.out.column == 1;
  Launch((dense ? dense_kernels : strided_kernels).get(tag_of(out)))
      .outputs(out)
      .inputs(a, b)
      .pointer(p.has_c ? c.const_data_ptr() : out.const_data_ptr())
      .bytes(p)
      .threads(p.N, p.M)
      .run();
}

// Computes beta * self + alpha * outer(vec1, vec2) as a GEMM with K = 1.
bool addr(const Tensor& self, const Tensor& vec1, const Tensor& vec2, const Scalar& beta, const Scalar& alpha,
          Tensor& out) {
  const bool same = self.scalar_type() == vec1.scalar_type() && vec1.scalar_type() == vec2.scalar_type() &&
                    accepts(out, self.scalar_type());
  const bool integral = !alpha.isFloatingPoint() && !beta.isFloatingPoint();
  if (!same || !all_have_matmul_kernels(self, vec1, vec2) || vec1.dim() != 1 || vec2.dim() != 1 ||
      !(integral || is_float_tag(tag_of(self)))) {
    // Do not call math_addr_out, because it calls addr through the dispatcher. Promote the operands first, because
    // math_addr multiplies them in their own types.
    const auto type = c10::promoteTypes(self.scalar_type(), c10::promoteTypes(vec1.scalar_type(), vec2.scalar_type()));
    const Tensor result = at::native::math_addr(self.to(type), vec1.to(type), vec2.to(type), beta, alpha);
    TORCH_CHECK(!out.is_same(self) || out.sizes() == result.sizes(), "addr: expected self of the result's shape ",
                result.sizes(), " for the in-place form, got ", out.sizes());
    return return_or_copy("addr", result, out);
  }
  const c10::MaybeOwned<Tensor> expanded = at::expand_size(self, {vec1.size(0), vec2.size(0)}, "addr");
  const Tensor& c = *expanded;
  if (!out.defined() && expanded->is_same(self))
    out = at::empty_like(c);
  else if (!out.is_same(self))
    allocate_or_resize(out, c.sizes(), self.options(),
                       c.is_non_overlapping_and_dense() ? c.strides() : at::IntArrayRef());
  TORCH_CHECK(out.sizes() == c.sizes(), "addr: expected self of the result's shape ", c.sizes(),
              " for the in-place form, got ", out.sizes());
  for (const Tensor* t : {&c, &vec1, &vec2}) at::assert_no_partial_overlap(out, *t);
  const bool overlaps_c = out.is_alias_of(c) && !(out.data_ptr() == c.data_ptr() && out.strides() == c.strides());
  if (out.is_complex() || overlaps_c || out.is_alias_of(vec1) || out.is_alias_of(vec2)) {
    gemm(out, vec1.unsqueeze(1), vec2.unsqueeze(0), {alpha, beta, c});
    return true;
  }
  MatmulParams p = gemv_params(out, 1, alpha, beta);
  p.M = uint32_t(length(out.size(0)));
  p.N = uint32_t(length(out.size(1)));
  p.a = {vec1.stride(0), 0, 0};
  p.b = {0, vec2.stride(0), 0};
  p.c = {c.stride(0), c.stride(1), 0};
  p.out = {out.stride(0), out.stride(1), 0};
  if (is_float_tag(tag_of(out)))
    launch_outer(out, vec1, vec2, c, p);
  else
    launch_gemm(out, vec1, vec2, c, p);
  return true;
}

// Returns whether one of the last N arguments on the stack, argument I, has only a few elements.
template <size_t N, size_t I>
bool is_small_vector(const torch::jit::Stack& stack) {
  const Tensor& t = torch::jit::last(stack, N)[I].toTensor();
  return has_matmul_kernel(t) && !t.is_complex() && t.numel() <= kSmallGemmMacs;
}
// Returns whether the outer product of two vectors is small. They are arguments 1 and 2 of the last N on the stack.
template <size_t N>
bool is_small_outer(const torch::jit::Stack& stack) {
  const auto arguments = torch::jit::last(stack, N);
  const Tensor &self = arguments[0].toTensor(), &a = arguments[1].toTensor(), &b = arguments[2].toTensor();
  return all_have_matmul_kernels(self, a, b) && !a.is_complex() && a.numel() * b.numel() <= kSmallGemmMacs;
}
}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  vendor::Library(m, vendor::kGemm)
      .impl("addmv.out", out_form("addmv", &addmv), &is_small_vector<6, 1>)
      .impl("dot", functional_form("dot", &dot), &is_small_vector<2, 0>)
      .impl("vdot", functional_form("vdot", &vdot), &is_small_vector<2, 0>);
  vendor::Library(m, vendor::kAten)
      .impl("addr", functional_form("addr", &addr), &is_small_outer<5>)
      .impl("addr.out", out_form("addr", &addr), &is_small_outer<6>)
      .impl("addr_", in_place_form("addr", &addr), &is_small_outer<5>);
}

}  // namespace mpsx::ops
