// Indexing with tensors (index.Tensor, index_put). Combines all index tensors into one flat index and then moves rows.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/strided.h"
#include "ops/index/index_add.h"
#include "ops/index/scatter.h"
#include "ops/indexing.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using Indices = c10::List<std::optional<Tensor>>;

std::string shapes(const std::vector<Tensor>& tensors) {
  std::ostringstream text;
  const char* separator = "";
  for (const Tensor& t : tensors) {
    if (!t.defined()) continue;
    text << separator << t.sizes();
    separator = ", ";
  }
  return text.str();
}

// Expresses self[indices] as a selection of rows from self viewed as (outer, size, row). `size` is the product of the
// sizes of all indexed dimensions.
struct Plan {
  Tensor self;                  // permuted to make the indexed dimensions adjacent
  std::vector<Tensor> indices;  // one for each dimension; undefined for a full slice
  size_t first = 0;             // the first indexed dimension
  at::DimVector broadcast;      // shape of the indices after broadcasting
  Tensor index;                 // contiguous flat indices, checked to be in range
  int64_t outer = 1, size = 1, row = 1;
  bool negative = false;  // whether indices may be negative
  at::DimVector shape;    // shape of the output

  Plan(const char* op, const Tensor& tensor, const Indices& given);
  Tensor result() const;
};

// Allocates an output whose dimension order depends on self and the indices in the same way as in TensorIterator.
Tensor Plan::result() const {
  const auto dense = [](const Tensor& t) { return !t.defined() || t.is_contiguous(); };
  if (dense(self) && std::all_of(indices.begin(), indices.end(), dense)) return at::empty(shape, self.options());
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false).check_all_same_dtype(false).add_owned_output(Tensor());
  config.declare_static_dtype_and_device(self.scalar_type(), self.device());
  at::DimVector strides(self.strides().begin(), self.strides().begin() + int64_t(first));
  strides.resize(first + broadcast.size(), 0);
  const size_t rest = shape.size() - strides.size();
  strides.append(self.strides().end() - int64_t(rest), self.strides().end());
  config.add_owned_const_input(at::native::as_strided_tensorimpl(self, shape, strides, self.storage_offset()));
  at::DimVector sizes(first, 1);
  sizes.append(broadcast.begin(), broadcast.end());
  sizes.resize(shape.size(), 1);
  for (const Tensor& t : indices)
    if (t.defined()) config.add_owned_const_input(t.expand(broadcast).reshape(sizes));
  return config.build().output();
}

Plan::Plan(const char* op, const Tensor& tensor, const Indices& given) : self(tensor) {
  TORCH_CHECK_INDEX(int64_t(given.size()) <= self.dim(), "too many indices for tensor of dimension ", self.dim(),
                    " (got ", given.size(), ")");
  at::native::checkIndexTensorTypes(given, /*allow_int=*/true);
  indices = at::native::expandTensors(self, given, /*ensure_same_device=*/true);
  TORCH_CHECK_INDEX(int64_t(indices.size()) <= self.dim(), "too many indices for tensor of dimension ", self.dim(),
                    " (got ", indices.size(), ")");
  for (Tensor& t : indices)
    if (t.defined() && t.device() != self.device()) t = t.to(self.device());
  for (const Tensor& t : indices) {
    if (!t.defined()) continue;
    try {
      broadcast = at::infer_size_dimvector(broadcast, t.sizes());
    } catch (const c10::Error&) {
      TORCH_CHECK_INDEX(false, "shape mismatch: indexing tensors could not be broadcast together with shapes ",
                        shapes(indices));
    }
  }
  indices.resize(size_t(self.dim()));
  if (!at::native::hasContiguousSubspace(indices))
    std::tie(self, indices) = at::native::transposeToFront(self, indices);
  size_t last = indices.size();
  while (first < indices.size() && !indices[first].defined()) ++first;
  while (last > first && !indices[last - 1].defined()) --last;
  for (size_t d = 0; d < indices.size(); ++d) (d < first ? outer : d < last ? size : row) *= self.size(int64_t(d));
  shape.append(self.sizes().begin(), self.sizes().begin() + int64_t(first));
  shape.append(broadcast.begin(), broadcast.end());
  shape.append(self.sizes().begin() + int64_t(last), self.sizes().end());
  for (size_t d = first; d < last; ++d)
    TORCH_CHECK_INDEX(self.size(int64_t(d)) > 0 || indices[d].numel() == 0,
                      "index is out of bounds for dimension with size 0");
  for (size_t d = first; d < last; ++d)
    check_index(op, dense_index(indices[d]), self.size(int64_t(d)), int64_t(d), true);
  if (last - first == 1) {
    index = dense_index(indices[first]).flatten();
    negative = true;
    return;
  }
  index = at::empty(broadcast, self.options().dtype(at::kLong));
  static const KernelSet position("index_position");
  int64_t share = size;
  for (size_t d = first; d < last; ++d) {
    const int64_t own = self.size(int64_t(d));
    share = own == 0 ? 0 : share / own;
    const Tensor dense = dense_index(indices[d]), expanded = dense.expand(broadcast);
    if (index.numel() == 0) continue;
    IndexParams p{};
    p.dim_size = own;
    p.dim_stride = share;
    p.add = d > first;
    const Strided<2> loops(broadcast, {index.strides(), expanded.strides()});
    loops.each(p, 4, [&](const auto& offsets) {
      Launch(position.get())
          .pointer(at_element(index, offsets[0]))
          .pointer(at_const_element(expanded, offsets[1]))
          .bytes(p)
          .threads(p.size[0], p.size[1], uint64_t(p.size[2]) * p.size[3])
          .run();
    });
  }
  index = index.flatten();
}

bool any_index(const Tensor& self, const Indices& indices) {
  bool any = false;
  for (const std::optional<Tensor>& index : indices) {
    if (!index || !index->defined()) continue;
    TORCH_CHECK(index->device().is_cpu() || index->device() == self.device(),
                "indices should be either on cpu or on the same device as the indexed tensor (", self.device(), ")");
    any = true;
  }
  return any;
}

bool index(const Tensor& self, const Indices& indices, Tensor& result) {
  if (!any_index(self, indices) || !is_bitwise_copyable(self)) return false;
  if (result.defined()) {
    TORCH_CHECK(self.scalar_type() == result.scalar_type(), "index_out: self (", self.scalar_type(), ") and result (",
                result.scalar_type(), ") must have the same scalar type");
    at::assert_no_internal_overlap(result);
    at::assert_no_overlap(result, self);
  }
  const Plan plan("index", self, indices);
  const Tensor fresh = result.defined() ? result : plan.result();
  const Tensor out = !result.defined() && fresh.is_contiguous() ? fresh : at::empty(plan.shape, self.options());
  RowsParams p{};
  p.size = plan.size;
  p.outer = plan.size * plan.row;
  p.pitch = plan.row;
  p.negative = plan.negative;
  const Tensor in = plan.self.contiguous();
  if (out.numel() > 0) launch_index_rows("index", out, in, plan.index, plan.outer, plan.row, p, true);
  if (result.defined()) return return_or_copy("index", out, result);
  result = fresh.is_same(out) ? out : fresh.copy_(out);
  return true;
}

bool can_put(const Tensor& self, bool accumulate) {
  return is_bitwise_copyable(self) && (!accumulate || tag_of(self) != Tag::none);
}

// Fills the elements that a single mask over the leading dimensions selects.
bool fill_by_mask(Tensor& self, const Indices& indices, const Tensor& value) {
  if (value.numel() != 1 || indices.size() != 1) return false;
  const std::optional<Tensor> first = indices.get(0);
  if (!first || !first->defined() || first->scalar_type() != at::kBool || first->device() != self.device())
    return false;
  Tensor mask = *first;
  if (mask.dim() > self.dim() || mask.sizes() != self.sizes().slice(0, size_t(mask.dim()))) return false;
  while (mask.dim() < self.dim()) mask = mask.unsqueeze(-1);
  self.masked_fill_(mask, value.reshape({}));
  return true;
}

void put_rows(const Tensor& self, const Plan& plan, const Tensor& source) {
  static const KernelSet kernel("index_put_rows");
  RowsParams p{};
  p.size = plan.size;
  p.outer = plan.size * plan.row;
  p.pitch = plan.row;
  p.negative = plan.negative;
  p.count = grid_size("index_put_", plan.index.numel());
  p.row = grid_size("index_put_", plan.row);
  Launch(kernel.get(bits_tag(self)))
      .outputs(self)
      .inputs(source, plan.index)
      .bytes(p)
      .groups({p.count, grid_size("index_put_", plan.outer), 1}, runtime::threads_for_row(uint64_t(plan.row)))
      .work(uint64_t(plan.row))
      .run();
}

bool index_put(Tensor& self, const Indices& indices, const Tensor& value, bool accumulate, bool) {
  if (!any_index(self, indices) || !can_put(self, accumulate) || value.is_conj() || value.is_neg()) return false;
  TORCH_CHECK(value.device() == self.device() || (value.device().is_cpu() && value.dim() == 0),
              "expected values to be on ", self.device(), " like self, got ", value.device());
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes) return false;  // deprecated; the CPU only warns
  if (!accumulate && fill_by_mask(self, indices, value)) return true;
  at::assert_no_overlap(self, value);
  for (const std::optional<Tensor>& index : indices)
    if (index && index->defined()) at::assert_no_overlap(self, *index);
  const Plan plan("index_put_", self, indices);
  TORCH_CHECK(at::is_expandable_to(value.sizes(), plan.shape), "shape mismatch: value tensor of shape ", value.sizes(),
              " cannot be broadcast to indexing result of shape ", plan.shape);
  TORCH_CHECK(self.scalar_type() == value.scalar_type(),
              "Index put requires the source and destination dtypes match, got ", self.scalar_type(),
              " for the destination and ", value.scalar_type(), " for the source.");
  if (plan.index.numel() == 0 || plan.row == 0 || plan.outer == 0) return true;
  const int64_t count = plan.index.numel();
  const Tensor source = value.to(self.device()).expand(plan.shape).contiguous().view({plan.outer, count, plan.row});
  const Tensor dense = plan.self.contiguous(), target = dense.view({plan.outer, plan.size, plan.row});
  if (accumulate) {
    add_rows(target, 1, plan.index, source, plan.negative);
  } else if (at::globalContext().deterministicAlgorithms()) {
    // Write in the order of the index. If an element receives several values, the last one then wins.
    scatter_along(Scatter::set, {target, expand_index(plan.index, target, 1), source}, 1, plan.negative);
  } else {
    put_rows(target, plan, source);
  }
  if (!dense.is_same(plan.self)) plan.self.copy_(dense);
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"index.Tensor", &ops::index>(m);
  op<"_index_put_impl_", &index_put>(m);
}

}  // namespace mpsx::ops
