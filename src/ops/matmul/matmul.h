// GEMMs of dense matrices, batches and vectors. Launchers use these.
#pragma once

#include <optional>

#include "matmul/params.h"
#include "ops/op.h"
#include "runtime/lane_groups.h"

namespace mpsx::ops {

// The epilogue of a GEMM, which computes activation(alpha * a @ b + beta * c).
struct GemmEpilogue {
  at::Scalar alpha = 1, beta = 0;
  Tensor c;  // expanded to the shape of the output; not read if beta is 0
  uint32_t activation = kActivationNone;
};

// Returns whether the matmul kernels support the tensor. Complex tensors may be lazily conjugated, because PyTorch does
// not resolve conjugation for these operators.
inline bool has_matmul_kernel(const Tensor& t) {
  const Tag tag = tag_of(t);
  if (tag == Tag::c64) return t.layout() == at::kStrided && t.device().type() == at::kPrivateUse1;
  return is_plain(t) && tag <= Tag::u8;
}
template <typename... Rest>
bool all_have_matmul_kernels(const Tensor& first, const Rest&... rest) {
  return has_matmul_kernel(first) && (true && ... && has_matmul_kernel(rest));
}
// Throws torch's error if the dtypes differ.
inline void check_same_dtype(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected m1 and m2 to have the same dtype, but got: ", a.dtype(),
              " != ", b.dtype());
}
inline void check_self_dtype(const Tensor& self, const Tensor& a) {
  TORCH_CHECK(self.scalar_type() == a.scalar_type(), "self and mat2 must have the same dtype, but got ", self.dtype(),
              " and ", a.dtype());
}

// Up to this many multiply-adds, the call overhead of the CPU library dominates.
inline constexpr int64_t kSmallGemmMacs = 4096;

// Sets alpha and beta in `p`, as float or int64 depending on the type of `out`.
void set_alpha_beta(MatmulParams& p, const Tensor& out, const at::Scalar& alpha, const at::Scalar& beta);

// Divides the threads of a kernel in gemv_int.metal, which multiplies M vectors by N rows of `blocks` blocks of
// weights.
runtime::LaneGroups gemv_int_lane_groups(const runtime::KernelEntry& kernel, uint32_t M, uint32_t N, uint64_t blocks);

// Launches the GEMM that `p` describes. `out` must not overlap an input.
void launch_gemm(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c, const MatmulParams& p);

// Computes out = a @ b for matrices or batches with any strides. All operands must have the same dtype, and `out` must
// have its final shape.
void gemm(const Tensor& out, const Tensor& a, const Tensor& b, const GemmEpilogue& end = {});

}  // namespace mpsx::ops
