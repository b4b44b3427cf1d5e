// Adds sparse tensors to sparse or dense tensors, multiplies sparse tensors, and applies sparse masks.
#include <ATen/ops/cat.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/mul_native.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <torch/library.h>

#include "ops/sparse/sparse.h"

namespace mpsx::ops::sparse {
namespace {

using at::Scalar;

Tensor& add_dense_sparse(const Tensor& dense, const Tensor& other, const Scalar& alpha, Tensor& out) {
  TORCH_CHECK(!out.is_sparse() && other.is_sparse(),
              "add: expected a dense result of a dense and a sparse tensor, got result of layout ", out.layout());
  TORCH_CHECK(dense.sizes() == other.sizes(), "add: expected 'self' and 'other' to have same size, but self has size ",
              dense.sizes(), " while other has size ", other.sizes(),
              " (FYI: dense-sparse addition does not currently support broadcasting)");
  const auto type = common_type("add", dense, other, out);
  const Tensor sum = prepare_output(out, dense.sizes(), dense.options().dtype(type));
  if (!sum.is_same(dense)) sum.copy_(dense);
  at::DimVector sizes{c10::multiply_integers(dense.sizes().slice(0, size_t(other.sparse_dim())))};
  sizes.append(dense.sizes().begin() + other.sparse_dim(), dense.sizes().end());
  if (other._nnz() > 0 && dense.numel() > 0)
    sum.view(sizes).index_add_(0, flat_index(other._indices(), other.sizes()), other._values().to(type), alpha);
  return return_or_copy("add", sum, out), out;
}

// Adds two sparse tensors by concatenating their elements. Coalesces the result if both operands are coalesced.
Tensor& add_out(const Tensor& self, const Tensor& other, const Scalar& alpha, Tensor& out) {
  check_same_device("aten::add.out", {&self, &other, &out});
  if (!has_kernels(self) || !has_kernels(other))
    return on_cpu<Tensor>("aten::add", "out", self, other, alpha, out), out;
  if (!self.is_sparse()) return add_dense_sparse(self, other, alpha, out);
  TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
              " != ", other.sizes());
  const auto type = common_type("add", self, other, out);
  const auto scaled = [&] {
    const Tensor values = other._values().to(type);
    return alpha.equal(1) ? values : at::mul(values, alpha).to(type);
  };
  if (other._nnz() == 0) return out.is_same(self) ? out : move_to_out(out, self.clone());
  if (self._nnz() == 0)
    return move_to_out(out,
                       make_sparse(other._indices().clone(), scaled().clone(), other.sizes(), other.is_coalesced()));
  TORCH_CHECK(at::sparse::is_same_density(self, other),
              "add: expected 'self' and 'other' to have same density, but 'self' has ", self.sparse_dim(),
              " sparse dimensions while 'other' has ", other.sparse_dim(), " sparse dimensions");
  const Tensor both = make_sparse(at::cat({self._indices(), other._indices()}, 1),
                                  at::cat({self._values().to(type), scaled()}), self.sizes(), false);
  return move_to_out(out, self.is_coalesced() && other.is_coalesced() ? both.coalesce() : both);
}

Tensor& mul_out(const Tensor& self, const Tensor& other, Tensor& out) {
  check_same_device("aten::mul.out", {&self, &other, &out});
  // If an operand is dense or a number, PyTorch's own code composes dense operators.
  if (!self.is_sparse() || !other.is_sparse() || self.dim() == 0 || other.dim() == 0)
    return at::native::mul_out_sparse_cpu(self, other, out);
  if (!has_kernels(self) || !has_kernels(other) || self.sizes() != other.sizes() ||
      self.sparse_dim() != other.sparse_dim() || !out.is_sparse())
    return on_cpu<Tensor>("aten::mul", "out", self, other, out), out;
  const auto type = common_type("mul", self, other, out);
  if (self._nnz() == 0 || other._nnz() == 0) {
    const Tensor& nothing = self._nnz() == 0 ? self : other;
    return move_to_out(out, make_sparse(nothing._indices().clone(), nothing._values().to(type), self.sizes(), true));
  }
  const bool ordered = self.is_coalesced() && other.is_coalesced();
  const bool by_size = ordered || self.is_coalesced() == other.is_coalesced();
  const bool self_first = by_size ? self._nnz() < other._nnz() : !self.is_coalesced();
  // Look up each element of one operand in the other.
  const Tensor& from = self_first ? self : other;
  const Tensor in = (self_first ? other : self).coalesce();
  const Lookup lookup(flat_index(in._indices(), in.sizes()), flat_index(from._indices(), from.sizes()));
  const auto products = [&](const Tensor& values, const Tensor& position) {
    return at::mul(values.to(type), in._values().index_select(0, position).to(type));
  };
  if (!ordered)  // like PyTorch, keep elements of one operand that the other one lacks
    return move_to_out(
        out, make_sparse(from._indices().clone(), lookup.zero_unless_found(products(from._values(), lookup.position)),
                         self.sizes(), false));
  const Tensor both = lookup.found.nonzero().view({-1});
  const Tensor values = products(from._values().index_select(0, both), lookup.position.index_select(0, both));
  return move_to_out(out, make_sparse(from._indices().index_select(1, both), values, self.sizes(), true));
}

// Returns the values of `self` at the coordinates of `mask`, or zeros where `self` has no element.
Tensor sparse_mask(const Tensor& self, const Tensor& mask) {
  check_same_device("aten::sparse_mask", {&self, &mask});
  TORCH_CHECK(mask.is_sparse(), "sparse_mask: expected a sparse mask, got one of layout ", mask.layout());
  TORCH_CHECK(mask.sizes() == self.sizes(), "sparse_mask(): operands have incompatible sizes; self has size ",
              self.sizes(), " but mask has size ", mask.sizes());
  if (self.is_same(mask)) return self;
  const Tensor indices = mask._indices().clone();
  if (self.is_sparse()) {
    if (mask.numel() == 0 || mask._nnz() == 0) return mask.clone().to(self.scalar_type());
    TORCH_CHECK(self.sparse_dim() == mask.sparse_dim(),
                "sparse_mask(): the number of sparse dimensions in `self` should match that of the `mask`. Got "
                "`self.sparse_dim() == ",
                self.sparse_dim(), "` != `mask.sparse_dim() == ", mask.sparse_dim(), "`.");
    const Tensor from = self.coalesce();
    const Lookup lookup(flat_index(from._indices(), from.sizes()), flat_index(indices, mask.sizes()));
    return make_sparse(indices, lookup.rows(from._values()), mask.sizes(), mask.is_coalesced());
  }
  at::DimVector sizes{c10::multiply_integers(self.sizes().slice(0, size_t(mask.sparse_dim())))};
  sizes.append(self.sizes().begin() + mask.sparse_dim(), self.sizes().end());
  const Tensor values = self.reshape(sizes).index_select(0, flat_index(indices, mask.sizes()));
  return make_sparse(indices, values, mask.sizes(), mask.is_coalesced());
}

// Returns the values of `self` at its own coordinates, or zeros where `mask` has no element. If `accumulate` is true,
// multiplies each value by the number of times that its coordinates occur in `mask`.
Tensor sparse_mask_projection(const Tensor& self, const Tensor& mask, bool accumulate) {
  check_same_device("aten::_sparse_mask_projection", {&self, &mask});
  TORCH_CHECK(self.is_sparse() && mask.is_sparse(), "_sparse_mask_projection: expected sparse tensors, got layouts ",
              self.layout(), " and ", mask.layout());
  TORCH_CHECK(mask.sizes() == self.sizes() && mask.sparse_dim() == self.sparse_dim(),
              "_sparse_mask_projection(): operands have incompatible sizes; self has size ", self.sizes(),
              " but mask has size ", mask.sizes());
  const Tensor indices = self._indices(), keys = flat_index(indices, self.sizes());
  const Tensor sorted = std::get<0>(at::sort(flat_index(mask._indices(), mask.sizes())));
  Tensor times = at::searchsorted(sorted, keys, false, /*right=*/true).sub_(at::searchsorted(sorted, keys));
  if (!accumulate) times.clamp_max_(1);
  at::DimVector shape(size_t(self._values().dim()), 1);
  shape[0] = keys.numel();
  const Tensor values = at::mul(self._values(), times.view(shape).to(self.scalar_type()));
  return make_sparse(indices.clone(), values, self.sizes(), self.is_coalesced());
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("add.out", &add_out);
  m.impl("mul.out", &mul_out);
  m.impl("sparse_mask", &sparse_mask);
  m.impl("_sparse_mask_projection", &sparse_mask_projection);
}

}  // namespace mpsx::ops::sparse
