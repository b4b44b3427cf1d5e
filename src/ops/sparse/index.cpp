// Selects elements of sparse tensors, and computes gradients that need such a selection.
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "ops/indexing.h"
#include "ops/sparse/sparse.h"

namespace mpsx::ops::sparse {
namespace {

// For each of `keys`, the number of its occurrences in `sorted`, and the position of the first one. All keys must be
// below `range`.
struct Occurrences {
  Tensor first, times;
  Occurrences(const Tensor& sorted, const Tensor& keys, int64_t range) {
    const bool tabulated = range < keys.numel();
    const Tensor asked = tabulated ? at::arange(range, keys.options()) : keys;
    first = at::searchsorted(sorted, asked);
    times = at::searchsorted(sorted, asked, false, /*right=*/true).sub_(first);
    if (!tabulated) return;
    first = first.index_select(0, keys);
    times = times.index_select(0, keys);
  }
};

Tensor index_select(const Tensor& self, int64_t dim_, const Tensor& index_) {
  check_same_device("aten::index_select", {&self, &index_});
  TORCH_CHECK_INDEX(self.dim() > 0, "index_select() cannot be applied to a 0-dim tensor.");
  const int64_t dim = at::maybe_wrap_dim(dim_, self.dim()), size = self.size(dim), sparse_dim = self.sparse_dim();
  TORCH_CHECK_INDEX(index_.dim() == 1 && index_.layout() == at::kStrided &&
                        (index_.scalar_type() == at::kLong || index_.scalar_type() == at::kInt),
                    "index_select() argument index must be 1-D strided long-tensor.");
  const Tensor given = dense_index(index_);
  check_index("index_select", given, size, dim, true);
  const Tensor index = at::where(given.lt(0), given.add(size), given);
  at::DimVector sizes(self.sizes());
  sizes[size_t(dim)] = index.numel();
  const Tensor indices = self._indices(), values = self._values();
  if (dim >= sparse_dim)
    return make_sparse(indices.clone(), values.index_select(dim - sparse_dim + 1, index), sizes, false);
  // Repeat each element as many times as the index selects it.
  const auto [sorted, by] = at::sort(index, /*stable=*/true, 0, false);
  const Occurrences named(sorted, indices[dim].contiguous(), size);
  const Ranges ranges(named.first, named.times);
  const Tensor coordinates = indices.index_select(1, ranges.range);
  coordinates[dim].copy_(by.index_select(0, ranges.number));
  return make_sparse(coordinates, values.index_select(0, ranges.range), sizes, false);
}

// The gradient of a sum over some dimensions. Each element receives the gradient of the sum that includes it, or zero
// if that gradient is not stored.
Tensor sum_backward(const Tensor& grad_, const Tensor& input_, IntArrayRef dims) {
  check_same_device("aten::_sparse_sum_backward", {&grad_, &input_});
  const Tensor input = input_.coalesce(), indices = input._indices();
  const auto summed = at::dim_list_to_bitset(dims, size_t(input.dim()));
  const int64_t sparse_dim = input.sparse_dim();
  at::DimVector kept;
  for (int64_t d = 0; d < sparse_dim; ++d)
    if (!summed[size_t(d)]) kept.push_back(d);
  TORCH_CHECK(grad_.is_sparse() == !kept.empty(), "_sparse_sum_backward: expected grad_ Tensor to be ",
              kept.empty() ? "dense since all sparse dims are summed, but got sparse" : "sparse, but got dense");
  Tensor values;
  if (kept.empty()) {
    values = grad_.unsqueeze(0);
  } else {
    const Tensor grad = grad_.coalesce();
    const Lookup lookup(flat_index(grad._indices(), grad.sizes()), flat_index(indices, input.sizes(), kept));
    values = lookup.rows(grad._values());
  }
  for (int64_t d = sparse_dim; d < input.dim(); ++d)
    if (summed[size_t(d)]) values = values.unsqueeze(d - sparse_dim + 1);
  values = values.expand(input._values().sizes()).clone(at::MemoryFormat::Contiguous);
  return make_sparse(indices.clone(), values, input.sizes(), /*coalesced=*/true);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) {
  m.impl("index_select", &index_select);
  m.impl("_sparse_sum_backward", &sum_backward);
}

}  // namespace mpsx::ops::sparse
