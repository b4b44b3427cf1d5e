// Multiplies sparse matrices by dense and sparse matrices.
#include <ATen/TensorOperators.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "ops/indexing.h"
#include "ops/sparse/sparse.h"
#include "ops/index/unique.h"

namespace mpsx::ops::sparse {

Rows::Rows(const char* op, const Tensor& starts_, const Tensor& column_, const Tensor& values_, int64_t columns)
    : starts(dense_index(starts_)),
      column(dense_index(column_)),
      values(values_.contiguous()),
      count(starts_.numel() - 1) {
  check_index(op, column, columns, 1, false);
}

Rows Rows::of(const char* op, const Tensor& row_, const Tensor& column, const Tensor& values, int64_t rows,
              int64_t columns, bool sorted) {
  const Tensor row = row_.contiguous();
  check_index(op, row, rows, 0, false);
  const auto starts = [&](const Tensor& ordered) {
    return at::searchsorted(ordered, at::arange(rows + 1, ordered.options()));
  };
  if (sorted) return Rows(op, starts(row), column, values, columns);
  const auto [ordered, order] = at::sort(rows <= INT32_MAX ? row.to(at::kInt) : row, /*stable=*/true, 0, false);
  return Rows(op, starts(ordered), column.index_select(0, order), values.index_select(0, order), columns);
}

Tensor Rows::lengths() const { return starts.slice(0, 1) - starts.slice(0, 0, -1); }
Tensor Rows::row() const { return at::repeat_interleave(lengths()); }

// Each row of the output is a weighted sum of rows of `dense`, as in an embedding bag.
Tensor Rows::times(const Tensor& dense) const {
  if (values.numel() == 0 || dense.size(1) == 0 || count == 0)
    return at::zeros({count, dense.size(1)}, dense.options());
  if (is_float_tag(tag_of(dense))) return sum_rows(dense.contiguous(), column, starts, count, values);
  const Tensor products = dense.index_select(0, column).mul_(values.unsqueeze(1));
  return at::zeros({count, dense.size(1)}, dense.options()).index_add_(0, row(), products);
}

Tensor combine(const Tensor& self, const Tensor& ab, const at::Scalar& beta, const at::Scalar& alpha) {
  if (!alpha.equal(1)) ab.mul_(alpha);
  if (beta.equal(0)) return ab;
  return ab.add_(self.expand(ab.sizes()), beta);
}

namespace {

using at::Scalar;

void check_types(const char* op, const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.scalar_type() == b.scalar_type(), op, ": expected matrices of the same type, got ", a.scalar_type(),
              " and ", b.scalar_type());
}

void check_operands(const char* op, const Tensor& sparse, const Tensor& dense) {
  TORCH_CHECK(sparse.is_sparse() && dense.layout() == at::kStrided, op,
              ": expected a sparse and a dense matrix, got layouts ", sparse.layout(), " and ", dense.layout());
  TORCH_CHECK(sparse.sparse_dim() == 2, op, ": matrices expected, got ", sparse.sparse_dim(), "D tensor");
  TORCH_CHECK(sparse.dense_dim() == 0, op, ": scalar values expected, got ", sparse.dense_dim(), "D values");
  TORCH_CHECK(dense.dim() == 2, op, ": matrices expected, got ", dense.dim(), "D tensor");
  TORCH_CHECK(dense.size(0) == sparse.size(1), op, ": Argument #3 (dense): Expected dim 0 size ", sparse.size(1),
              ", got ", dense.size(0));
  check_types(op, sparse, dense);
}

Tensor sparse_matmul(const char* op, const Tensor& sparse, const Tensor& dense) {
  check_operands(op, sparse, dense);
  const Tensor indices = sparse._indices();
  return Rows::of(op, indices[0], indices[1], sparse._values(), sparse.size(0), sparse.size(1), sparse.is_coalesced())
      .times(dense);
}

// The nonempty rows of a matmul of a sparse and a dense matrix, with their indices.
struct NonemptyRows {
  Tensor row, values;
  NonemptyRows(const char* op, const Tensor& sparse_, const Tensor& dense) {
    check_operands(op, sparse_, dense);
    const Tensor sparse = sparse_.coalesce(), indices = sparse._indices();
    if (sparse._nnz() == 0) {
      row = at::empty({0}, indices.options());
      values = at::empty({0, dense.size(1)}, dense.options());
      return;
    }
    const Runs runs(indices[0].contiguous(), false);
    const Tensor starts = at::cat({runs.firsts, at::full({1}, sparse._nnz(), runs.firsts.options())});
    row = indices[0].index_select(0, runs.firsts);
    values = Rows(op, starts, indices[1], sparse._values(), sparse.size(1)).times(dense);
  }
};

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  check_same_device("aten::addmm", {&self, &mat1, &mat2});
  if (!has_kernels(mat2)) return on_cpu<Tensor>("aten::addmm", "", self, mat1, mat2, beta, alpha);
  TORCH_CHECK(self.layout() == at::kStrided, "addmm: expected a dense tensor to add to, got one of layout ",
              self.layout());
  const Tensor result = sparse_matmul("addmm", mat1, mat2);
  check_types("addmm", self, mat2);
  return combine(self.expand(result.sizes()), result, beta, alpha);
}

Tensor& addmm_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha,
                  Tensor& out) {
  check_same_device("aten::addmm.out", {&self, &mat1, &mat2, &out});
  check_types("addmm", out, mat2);
  return return_or_copy("addmm", addmm(self, mat1, mat2, beta, alpha), out), out;
}

Tensor& addmm_in_place(Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  const at::DimVector sizes{mat1.size(0), mat2.size(1)};
  TORCH_CHECK(self.sizes() == IntArrayRef(sizes), "addmm_: expected self of size ", IntArrayRef(sizes), ", got ",
              self.sizes());
  return addmm_out(self, mat1, mat2, beta, alpha, self);
}

// Multiplies a batch of sparse matrices by `mat2`, as one block-diagonal matrix.
Tensor bmm(const Tensor& self, const Tensor& mat2) {
  check_same_device("aten::bmm", {&self, &mat2});
  if (!has_kernels(mat2)) return on_cpu<Tensor>("aten::bmm", "", self, mat2);
  TORCH_CHECK(self.is_sparse() && !mat2.is_sparse(), "bmm: expected a sparse and a dense tensor, got layouts ",
              self.layout(), " and ", mat2.layout());
  TORCH_CHECK(self.dense_dim() == 0, "bmm_sparse: Tensor 'self' must have 0 dense dims, but has ", self.dense_dim());
  TORCH_CHECK(self.sparse_dim() == 3, "bmm_sparse: Tensor 'self' must have 3 sparse dims, but has ", self.sparse_dim());
  TORCH_CHECK(mat2.dim() == 3, "bmm_sparse: Tensor 'mat2' must have 3 dims, but has ", mat2.dim());
  TORCH_CHECK(self.size(0) == mat2.size(0), "bmm_sparse: 'self.size(0)' and 'mat2.size(0)' must match");
  TORCH_CHECK(self.size(2) == mat2.size(1), "bmm_sparse: 'self.size(2)' and 'mat2.size(1)' must match");
  check_types("bmm", self, mat2);
  const int64_t batch = self.size(0), rows = self.size(1), columns = self.size(2);
  const Tensor indices = self._indices();
  const Rows flat = Rows::of("bmm", at::add(indices[1], indices[0], rows), at::add(indices[2], indices[0], columns),
                             self._values(), batch * rows, batch * columns, self.is_coalesced());
  return flat.times(mat2.reshape({batch * columns, mat2.size(2)})).view({batch, rows, mat2.size(2)});
}

Tensor& bmm_out(const Tensor& self, const Tensor& mat2, Tensor& out) {
  const Tensor result = bmm(self, mat2);
  check_same_device("aten::bmm.out", {&self, &out});
  check_types("bmm", out, result);
  return return_or_copy("bmm", result, out), out;
}

Tensor hspmm(const Tensor& sparse, const Tensor& dense) {
  check_same_device("aten::hspmm", {&sparse, &dense});
  if (!has_kernels(dense)) return on_cpu<Tensor>("aten::hspmm", "", sparse, dense);
  const NonemptyRows rows("hspmm", sparse, dense);
  return make_sparse(rows.row.unsqueeze(0), rows.values, {sparse.size(0), dense.size(1)}, false);
}
Tensor& hspmm_out(const Tensor& sparse, const Tensor& dense, Tensor& out) {
  return move_to_out(out, hspmm(sparse, dense));
}

// Computes sspaddmm by concatenating the elements of beta * self and alpha * mat1 @ mat2.
Tensor& sparse_sum_out(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                       const Scalar& alpha, Tensor& out) {
  check_same_device("aten::sspaddmm.out", {&self, &mat1, &mat2, &out});
  TORCH_CHECK(self.is_sparse() && out.is_sparse(), "sspaddmm: expected a sparse tensor to add to, got layout ",
              self.layout());
  if (!has_kernels(mat2)) return on_cpu<Tensor>("aten::sspaddmm", "out", self, mat1, mat2, beta, alpha, out), out;
  const NonemptyRows rows("sspaddmm", mat1, mat2);
  const int64_t height = mat1.size(0), width = mat2.size(1), count = rows.row.numel();
  // smm() passes its empty output as `self`. Skip the size check in this case.
  const bool is_empty_self = self._nnz() == 0 && self.is_same(out);
  TORCH_CHECK(is_empty_self || (self.dim() == 2 && self.size(0) == height && self.size(1) == width),
              "sspaddmm: Argument #1: Expected size ", height, "x", width, ", got ", self.sizes());
  const auto options = rows.row.options();
  const Tensor row = rows.row.unsqueeze(1).expand({count, width}), column = at::arange(width, options).expand_as(row);
  Tensor indices = at::stack({row.reshape({-1}), column.reshape({-1})}),
         values = at::mul(rows.values, alpha).view({-1});
  if (!is_empty_self) {
    indices = at::cat({self._indices(), indices}, 1);
    values = at::cat({at::mul(self._values(), beta), values});
  }
  return move_to_out(out, make_sparse(indices, values, {height, width}, false));
}

// Multiplies each element of `self` by the row of `other` that its column selects, and then sums duplicates.
Tensor sparse_sparse_matmul(const Tensor& self, const Tensor& other) {
  check_same_device("aten::_sparse_sparse_matmul", {&self, &other});
  if (!has_kernels(self)) return on_cpu<Tensor>("aten::_sparse_sparse_matmul", "", self, other);
  TORCH_CHECK(self.is_sparse() && other.is_sparse(), "sparse_matmul: expected two sparse matrices, got layouts ",
              self.layout(), " and ", other.layout());
  TORCH_CHECK(self.dim() == 2 && other.dim() == 2 && self.dense_dim() == 0 && other.dense_dim() == 0,
              "sparse_matmul: expected matrices of scalar values, got ", self.dim(), "D and ", other.dim(),
              "D tensors with ", self.dense_dim(), "D and ", other.dense_dim(), "D values");
  TORCH_CHECK(self.size(1) == other.size(0), "mat1 and mat2 shapes cannot be multiplied (", self.size(0), "x",
              self.size(1), " and ", other.size(0), "x", other.size(1), ")");
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "mat1 dtype ", self.scalar_type(),
              " does not match mat2 dtype ", other.scalar_type());
  const Tensor a = self.coalesce(), i = a._indices();
  const Tensor j = other._indices();
  const Rows b =
      Rows::of("sparse_matmul", j[0], j[1], other._values(), other.size(0), other.size(1), other.is_coalesced());
  const Tensor first = b.starts.index_select(0, i[1]), lengths = b.lengths().index_select(0, i[1]);
  // The k-th pair for an element of `self` contains the k-th element of the selected row of `other`.
  const Ranges pairs(first, lengths);
  const Tensor values = a._values().index_select(0, pairs.range).mul_(b.values.index_select(0, pairs.number));
  const Tensor indices = at::empty({2, pairs.range.numel()}, i.options());
  indices[0].copy_(i[0].index_select(0, pairs.range));
  indices[1].copy_(b.column.index_select(0, pairs.number));
  return make_sparse(indices, values, {self.size(0), other.size(1)}, false).coalesce();
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("addmm", &addmm);
  m.impl("addmm.out", &addmm_out);
  m.impl("addmm_", &addmm_in_place);
  m.impl("bmm", &bmm);
  m.impl("bmm.out", &bmm_out);
  m.impl("hspmm", &hspmm);
  m.impl("hspmm.out", &hspmm_out);
  m.impl("sspaddmm.out", &sparse_sum_out);
  m.impl("_sparse_sparse_matmul", &sparse_sparse_matmul);
}

}  // namespace mpsx::ops::sparse
