// coalesce, and helpers that the sparse operators share.
#include "ops/sparse/sparse.h"

#include <ATen/native/DispatchStub.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "index/bag_params.h"
#include "ops/index/unique.h"

namespace mpsx::ops::sparse {

Ranges::Ranges(const Tensor& first, const Tensor& lengths) : range(at::repeat_interleave(lengths)) {
  const Tensor before = at::cumsum(lengths, 0).sub_(lengths);
  number = at::arange(range.numel(), range.options()).add_(at::sub(first, before).index_select(0, range));
}

Tensor make_sparse(const Tensor& indices, const Tensor& values, IntArrayRef sizes, bool coalesced) {
  return at::_sparse_coo_tensor_with_dims_and_tensors(indices.size(0), values.dim() - 1, sizes, indices, values,
                                                      values.options().layout(at::kSparse),
                                                      coalesced || indices.size(1) < 2);
}

Tensor& move_to_out(Tensor& out, const Tensor& from) {
  TORCH_CHECK(out.is_sparse(), "expected a sparse tensor to write the result to, got a dense one");
  auto* to = at::sparse::get_sparse_impl(out);
  to->raw_resize_(from.sparse_dim(), from.dense_dim(), from.sizes());
  to->set_indices_and_values_unsafe(from._indices(), from._values().to(out.scalar_type()));
  to->set_coalesced(from.is_coalesced());
  return out;
}

at::ScalarType common_type(const char* op, const Tensor& a, const Tensor& b, const Tensor& out) {
  const auto common = at::promoteTypes(a.scalar_type(), b.scalar_type());
  TORCH_CHECK(at::canCast(common, out.scalar_type()), "Can't convert result type ", common, " to output ",
              out.scalar_type(), " in ", op, " operation");
  return common;
}

Tensor flat_index(const Tensor& indices, IntArrayRef sizes, IntArrayRef dims) {
  if (dims.empty()) return at::zeros({indices.size(1)}, indices.options());
  Tensor flat = indices.select(0, dims[0]);
  for (const int64_t d : dims.slice(1)) flat = at::add(indices.select(0, d), flat, sizes[size_t(d)]);
  return flat.contiguous();
}

at::DimVector all_dims(const Tensor& indices) {
  at::DimVector dims(size_t(indices.size(0)));
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

Tensor flat_index(const Tensor& indices, IntArrayRef sizes) { return flat_index(indices, sizes, all_dims(indices)); }

int64_t index_range(IntArrayRef sizes, IntArrayRef dims) {
  int64_t range = 1;
  for (const int64_t d : dims)
    if (__builtin_mul_overflow(range, sizes[size_t(d)], &range)) return std::numeric_limits<int64_t>::max();
  return range;
}

Grouped::Grouped(const Tensor& keys, int64_t range) {
  // Narrower keys sort proportionally faster.
  const auto [sorted, by] = at::sort(range <= INT32_MAX ? keys.to(at::kInt) : keys, /*stable=*/true, 0, false);
  const Runs runs(sorted, false);
  order = by;
  firsts = runs.firsts;
  of = runs.of;
  count = firsts.numel();
}

Tensor sum_rows(const Tensor& table, const Tensor& indices, const Tensor& starts, int64_t count,
                const Tensor& weights) {
  static const KernelSet kernels("embedding_bag");
  const Tensor out = at::empty({count, table.size(1)}, table.options()), sizes = at::empty({count}, starts.options());
  if (out.numel() == 0) return out;
  TORCH_CHECK(std::max({indices.numel(), table.size(1), count}) < int64_t(UINT32_MAX),
              "sparse tensors: expected fewer than 2^32 - 1 elements and rows, got ", indices.numel(), " and ", count);
  BagParams p{};
  p.rows = table.size(0);
  p.padding = -1;
  p.width = uint32_t(table.size(1));
  p.count = uint32_t(indices.numel());
  p.bags = uint32_t(count);
  p.weighted = weights.defined();
  Launch(kernels.get(tag_of(table)))
      .outputs(out, sizes)
      .pointer(nullptr)
      .inputs(table, indices, starts, weights)
      .bytes(p)
      .groups({p.bags, 1, 1}, runtime::threads_for_row(uint64_t(p.width) * 4))
      .work(uint64_t(p.width) * (1 + p.count / p.bags))
      .run();
  return out;
}

Lookup::Lookup(const Tensor& sorted, const Tensor& keys) {
  if (sorted.numel() == 0) {
    position = at::zeros_like(keys);
    found = at::zeros(keys.sizes(), keys.options().dtype(at::kBool));
    return;
  }
  position = at::searchsorted(sorted, keys).clamp_max_(sorted.numel() - 1);
  found = at::eq(sorted.index_select(0, position), keys);
}

Tensor Lookup::zero_unless_found(const Tensor& rows) const {
  at::DimVector shape(size_t(rows.dim()), 1);
  shape[0] = found.numel();
  return at::where(found.view(shape), rows, at::scalar_tensor(0, rows.options()));
}

Tensor Lookup::rows(const Tensor& values) const {
  if (values.numel() > 0) return zero_unless_found(values.index_select(0, position));
  at::DimVector sizes(values.sizes());
  sizes[0] = position.numel();
  return at::zeros(sizes, values.options());
}

namespace {

// Sums the elements of each group in order. Half types accumulate in float and are rounded only once.
Tensor sum_groups(const Tensor& values_, const Grouped& groups) {
  at::DimVector sizes(values_.sizes());
  sizes[0] = groups.count;
  const int64_t width = values_.numel() / values_.size(0);
  const bool half = values_.scalar_type() == at::kHalf || values_.scalar_type() == at::kBFloat16;
  if (half || (width > 2 && values_.scalar_type() == at::kFloat)) {
    const Tensor values = values_.contiguous().view({values_.size(0), width});
    return sum_rows(values, groups.order, groups.firsts, groups.count, Tensor()).view(sizes);
  }
  return at::zeros(sizes, values_.options()).index_add_(0, groups.of, values_.index_select(0, groups.order));
}

Tensor coalesce(const Tensor& self) {
  if (self._nnz() < 2) return self.clone()._coalesced_(true);
  if (!has_kernels(self)) return on_cpu<Tensor>("aten::_coalesce", "", self);
  const Tensor indices = self._indices(), values = self._values();
  const Grouped groups(flat_index(indices, self.sizes()), index_range(self.sizes(), all_dims(indices)));
  if (groups.count == indices.size(1))
    return make_sparse(indices.index_select(1, groups.order), values.index_select(0, groups.order), self.sizes(), true);
  return make_sparse(indices.index_select(1, groups.order.index_select(0, groups.firsts)), sum_groups(values, groups),
                     self.sizes(), true);
}

Tensor flatten(const Tensor& indices, IntArrayRef sizes) { return flat_index(indices, sizes); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) { m.impl("_coalesce", &coalesce); }

}  // namespace mpsx::ops::sparse

// PyTorch's conversions of compressed tensors call this stub, but none of its installed headers declares it.
namespace at::native {

using FlattenIndices = Tensor (*)(const Tensor&, IntArrayRef);
DECLARE_DISPATCH(FlattenIndices, flatten_indices_stub)
REGISTER_PRIVATEUSE1_DISPATCH(flatten_indices_stub, &mpsx::ops::sparse::flatten)

}  // namespace at::native
