// Matrix products by kernels, for operators that are made of them.
#pragma once

#include <optional>

#include "matmul/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// The epilogue of a product of matrices: activation(alpha * a b + beta * c).
struct ProductEnd {
  at::Scalar alpha = 1, beta = 0;
  Tensor c;  // broadcast to the result; not read where beta is zero
  uint32_t activation = kActivationNone;
};

// Complex numbers may be conjugated in passing, which PyTorch leaves to these operators.
inline bool has_product_kernel(const Tensor& t) {
  const Tag tag = tag_of(t);
  if (tag == Tag::c64) return t.layout() == at::kStrided && t.device().type() == at::kPrivateUse1;
  return is_plain(t) && tag <= Tag::u8;
}
template <typename... Rest>
bool all_have_product_kernels(const Tensor& first, const Rest&... rest) {
  return has_product_kernel(first) && (true && ... && has_product_kernel(rest));
}
// As torch says it.
inline void check_product_types(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), "expected m1 and m2 to have the same dtype, but got: ", a.dtype(),
              " != ", b.dtype());
}
inline void check_product_self(const Tensor& self, const Tensor& a) {
  TORCH_CHECK(self.scalar_type() == a.scalar_type(), "self and mat2 must have the same dtype, but got ", self.dtype(),
              " and ", a.dtype());
}

// So few multiplications take less time in our own kernel than the way to a library does.
inline constexpr int64_t kFewProducts = 4096;

// Writes alpha and beta into `p` as kernels of out's type read them.
void set_factors(MatmulParams& p, const Tensor& out, const at::Scalar& alpha, const at::Scalar& beta);

// The product that `p` describes, of memory that does not overlap.
void launch_product(const Tensor& out, const Tensor& a, const Tensor& b, const Tensor& c, const MatmulParams& p);

// out = a b, of matrices or batches of them of any strides, all of one type that has kernels. `out` has its size.
void matrix_product(const Tensor& out, const Tensor& a, const Tensor& b, const ProductEnd& end = {});

}  // namespace mpsx::ops
