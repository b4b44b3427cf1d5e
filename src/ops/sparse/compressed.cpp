// Converts between the indices of sparse CSR and COO tensors, and multiplies sparse CSR tensors by dense matrices.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_sparse_csr_tensor_unsafe.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/searchsorted.h>
#include <torch/library.h>

#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/sparse/sparse.h"

namespace mpsx::ops::sparse {
namespace {

using at::Scalar;
constexpr auto kCompressed = c10::DispatchKey::SparseCsrCPU;

// Returns the start of every row, given sorted row numbers.
Tensor& row_starts_out(const Tensor& self, int64_t size, bool out_int32, Tensor& out) {
  TORCH_CHECK(self.dim() <= 1, "Input is supposed to be a vector, but got ", self.dim(), " dimensional tensor.");
  const Tensor rows = self.reshape({-1}).contiguous();
  at::searchsorted_out(out, rows, at::arange(size + 1, rows.options()), out_int32);
  return out;
}

Tensor lengths(const Tensor& starts) { return starts.slice(-1, 1) - starts.slice(-1, 0, -1); }

// Returns the COO coordinates of the elements: batch, row and column.
Tensor& coordinates_out(const Tensor& starts, const Tensor& columns, bool out_int32, bool transpose, Tensor& out) {
  const auto type = out_int32 ? at::kInt : at::kLong;
  const int64_t batch_dims = columns.dim() - 1, rows = starts.size(-1) - 1, size = columns.numel();
  TORCH_CHECK(
      batch_dims >= 0 && starts.dim() == columns.dim(),
      "_convert_indices_from_csr_to_coo: expected crow_indices and col_indices of the same number of dimensions, "
      "got ",
      starts.dim(), " and ", columns.dim());
  TORCH_CHECK(out.scalar_type() == type, "_convert_indices_from_csr_to_coo: expected a result of type ", type, ", got ",
              out.scalar_type());
  allocate_or_resize(out, {columns.dim() + 1, size}, out.options());
  if (size == 0) return out;
  const Tensor row = at::repeat_interleave(lengths(starts.to(at::kLong)).reshape({-1}));
  out.select(0, batch_dims + (transpose ? 1 : 0)).copy_(batch_dims > 0 ? at::remainder(row, rows) : row);
  out.select(0, batch_dims + (transpose ? 0 : 1)).copy_(columns.reshape({-1}));
  Tensor batch = batch_dims > 0 ? at::div(row, rows, "floor") : row;
  for (int64_t d = batch_dims - 1; d >= 0; --d) {
    out.select(0, d).copy_(at::remainder(batch, columns.size(d)));
    batch = at::div(batch, columns.size(d), "floor");
  }
  return out;
}

bool is_csr_matmul(const Tensor& mat1, const Tensor& mat2, const Tensor& out) {
  return mat1.layout() == at::kSparseCsr && mat1.dim() == 2 && mat2.layout() == at::kStrided && has_kernels(mat2) &&
         out.layout() == at::kStrided && mat1.scalar_type() == mat2.scalar_type() &&
         out.scalar_type() == mat2.scalar_type();
}

Rows rows_of(const char* op, const Tensor& csr) {
  return Rows(op, csr.crow_indices(), csr.col_indices(), csr.values(), csr.size(1));
}

Tensor& finish_addmm(const Tensor& self, const Tensor& ab, const Scalar& beta, const Scalar& alpha, Tensor& out) {
  return return_or_copy("addmm", combine(self, ab, beta, alpha), out), out;
}

Tensor& compressed_product_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                               const Scalar& alpha, Tensor& out) {
  check_same_device("aten::addmm.out", {&self, &mat1, &mat2, &out});
  if (!is_csr_matmul(mat1, mat2, out) || mat2.dim() != 2 || mat1.size(1) != mat2.size(0))
    return on_cpu<Tensor, kCompressed>("aten::addmm", "out", self, mat1, mat2, beta, alpha, out), out;
  return finish_addmm(self, rows_of("addmm", mat1).times(mat2), beta, alpha, out);
}

Tensor& compressed_vector_product_out(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta,
                                      const Scalar& alpha, Tensor& out) {
  check_same_device("aten::addmv.out", {&self, &mat, &vec, &out});
  if (!is_csr_matmul(mat, vec, out) || vec.dim() != 1 || mat.size(1) != vec.size(0))
    return on_cpu<Tensor, kCompressed>("aten::addmv", "out", self, mat, vec, beta, alpha, out), out;
  return finish_addmm(self, rows_of("addmv", mat).times(vec.unsqueeze(1)).squeeze(1), beta, alpha, out);
}

// Computes a dense matmul only at the specified elements of `self`. This is the gradient of a matmul with a compressed
// matrix, with respect to that matrix.
Tensor sampled_matmul(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                      const Scalar& alpha) {
  check_same_device("aten::sparse_sampled_addmm", {&self, &mat1, &mat2});
  if (!is_csr_matmul(self, mat1, mat2) || mat1.dim() != 2 || mat2.dim() != 2 || mat1.size(0) != self.size(0) ||
      mat1.size(1) != mat2.size(0) || mat2.size(1) != self.size(1) || at::isIntegralType(self.scalar_type(), true))
    return on_cpu<Tensor, kCompressed>("aten::sparse_sampled_addmm", "", self, mat1, mat2, beta, alpha);
  const Rows rows = rows_of("sparse_sampled_addmm", self);
  const Tensor left = mat1.index_select(0, rows.row()), right = mat2.t().index_select(0, rows.column);
  const Tensor values = combine(self.values(), at::mul(left, right).sum(1), beta, alpha);
  return at::_sparse_csr_tensor_unsafe(self.crow_indices().clone(), self.col_indices().clone(), values, self.sizes(),
                                       self.options());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "_convert_indices_from_coo_to_csr.out", &row_starts_out);
  impl(m, "_convert_indices_from_csr_to_coo.out", &coordinates_out);
}

TORCH_LIBRARY_IMPL(aten, SparseCsrPrivateUse1, m) {
  m.impl("addmm.out", &compressed_product_out);
  m.impl("addmv.out", &compressed_vector_product_out);
  m.impl("sparse_sampled_addmm", &sampled_matmul);
}

}  // namespace mpsx::ops::sparse
