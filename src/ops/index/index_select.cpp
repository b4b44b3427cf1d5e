// index_select and embedding.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/indexing.h"
#include "ops/operator.h"

namespace mpsx::ops {

namespace {

void check_index_select(const Tensor& self, int64_t dim, const Tensor& index) {
  TORCH_CHECK_INDEX(index.dim() <= 1, "index_select(): Index is supposed to be a vector");
  TORCH_CHECK(index.scalar_type() == at::kLong || index.scalar_type() == at::kInt,
              "index_select(): Expected dtype int32 or int64 for index");
  check_same_device("index_select", self, index);
  TORCH_CHECK(self.dim() > 0 || index.numel() == 1, "index_select(): Index to scalar can have only 1 value, got ",
              index.numel(), " value(s)");
  TORCH_CHECK(self.dim() == 0 || dim < self.dim(), "index_select(): Indexing dim ", dim, " is out of bounds of tensor");
}

at::DimVector selected_sizes(const Tensor& self, int64_t dim, const Tensor& index) {
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  if (!sizes.empty()) sizes[size_t(dim)] = index.numel();
  return sizes;
}

bool index_select(const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  if (!is_bitwise_copyable(self)) return false;
  dim = at::maybe_wrap_dim(dim, self.dim());
  check_index_select(self, dim, index);
  const at::DimVector sizes = selected_sizes(self, dim, index);
  if (out.defined()) {
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "index_select(): self and result must have the same scalar type");
    at::assert_no_internal_overlap(out);
    at::assert_no_overlap(out, self);
    at::assert_no_overlap(out, index);
  }
  const Tensor result = prepare_output(out, sizes, self.options());
  select_rows_into("index_select", result, self, dim, index);
  return return_or_copy("index_select", result, out);
}

std::optional<Tensor> embedding(const Tensor& weight, const Tensor& indices, c10::SymInt, bool, bool) {
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D");
  at::checkScalarTypes("embedding", at::TensorArg{indices, "indices", 1}, {at::kLong, at::kInt});
  if (!is_bitwise_copyable(weight)) return std::nullopt;
  check_same_device("embedding", weight, indices);
  at::DimVector sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  const Tensor out = at::empty(sizes, weight.options());
  const Tensor rows = weight.stride(1) == 1 || weight.size(1) == 1 ? weight : weight.contiguous();
  RowsParams p{};
  p.size = rows.size(0);
  p.pitch = rows.stride(0);
  launch_index_rows("embedding", out, rows, indices, 1, rows.size(1), p);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"index_select", &ops::index_select>(m);
  op<"embedding", &embedding>(m);
}

}  // namespace mpsx::ops
