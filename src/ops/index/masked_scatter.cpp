// masked_scatter_ and put_.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/where.h>
#include <torch/library.h>

#include "ops/elementwise/complex.h"
#include "ops/index/index_add.h"
#include "ops/index/scatter.h"
#include "ops/indexing.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

// Writes consecutive elements of `source` to the positions at which `mask` is true.
bool masked_scatter(Tensor& self, const Tensor& mask, const Tensor& source) {
  TORCH_CHECK(self.scalar_type() == source.scalar_type(),
              "masked_scatter: expected self and source to have same dtypes but got ", self.scalar_type(), " and ",
              source.scalar_type());
  check_same_device("masked_scatter", self, mask, source);
  if (!(has_number_kernel(self) || is_plain_complex(self)) || !is_plain(source) || mask.scalar_type() != at::kBool ||
      !is_plain(mask))
    return false;
  at::assert_no_internal_overlap(self);
  if (self.numel() == 0) return true;
  const Tensor selected = mask.expand(self.sizes()).contiguous();
  const Tensor position = selected.flatten().cumsum(0, at::kLong).sub_(1);
  const int64_t count = position[-1].item<int64_t>() + 1;
  TORCH_CHECK(count <= source.numel(), "masked_scatter: expected at least ", count,
              " elements in source, as many as mask selects, got ", source.numel());
  if (count == 0) return true;
  const Tensor taken = source.flatten().index_select(0, position.clamp_min_(0)).view(self.sizes());
  self.copy_(at::where(selected, taken, self));
  return true;
}

bool put(Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  if (index.numel() == 0 && source.numel() == 0 && index.scalar_type() == at::kLong &&
      source.scalar_type() == self.scalar_type())
    return true;
  if (!has_number_kernel(self) || !is_plain(index) || !is_plain(source) || index.scalar_type() != at::kLong ||
      source.scalar_type() != self.scalar_type() || index.numel() != source.numel() || self.numel() == 0)
    return false;
  at::assert_no_internal_overlap(self);
  at::assert_no_overlap(self, index);
  at::assert_no_overlap(self, source);
  const Tensor flat = self.is_contiguous() ? self.view(-1) : self.flatten();
  const Tensor where = index.flatten().contiguous(), values = source.flatten();
  check_index("put_", where, flat.numel(), 0, true);
  if (accumulate)
    add_rows(flat, 0, where, values, true);
  else
    scatter_along(Scatter::set, {flat, where, values}, 0, true);
  if (!self.is_contiguous()) self.copy_(flat.view(self.sizes()));
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"masked_scatter_", &masked_scatter>(m);
  op<"put_", &put>(m);
}

}  // namespace mpsx::ops
