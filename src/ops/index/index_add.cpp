// index_add, index_copy and index_fill. They apply the same index to all slices along a dimension.
#include "ops/index/index_add.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_add_meta.h>
#include <ATen/ops/index_copy_meta.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/elementwise/elementwise.h"
#include "ops/index/scatter.h"
#include "ops/index/segment.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {

void add_rows(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, bool negative) {
  if (index.numel() == 0 || source.numel() == 0) return;
  if (self.is_complex()) {  // view as real numbers, with a last dimension of 2
    const auto halves = [](const Tensor& t) { return at::view_as_real(t.dim() == 0 ? t.unsqueeze(0) : t); };
    return add_rows(halves(self), dim, index, halves(source), negative);
  }
  const int64_t size = self.dim() ? self.size(dim) : 1, lines = self.numel() / std::max<int64_t>(size, 1);
  // Half types must be rounded only once. Either sum by segments, or accumulate in a float copy of self, which may be
  // larger than the source.
  const bool half = self.scalar_type() == at::kHalf || self.scalar_type() == at::kBFloat16;
  const bool by_segments = self.is_contiguous() && fits_segments(index.numel(), size) &&
                           (should_sort_index(lines) || (half && self.numel() > source.numel()));
  if (by_segments) {
    const Blocks blocks(self.sizes(), dim);
    SegmentParams p{};
    p.outer = blocks.size * blocks.inner;
    p.pitch = blocks.inner;
    p.padding = -1;
    p.add = true;
    return launch_segment_sum(self, source.contiguous(), index, size, blocks.outer, blocks.inner, p);
  }
  const bool done = scatter_along(Scatter::add, {self, expand_index(index, self, dim), source}, dim, negative);
  TORCH_INTERNAL_ASSERT(done, "add_rows: no kernel for ", self.scalar_type());
}

Tensor expand_index(const Tensor& index, const Tensor& like, int64_t dim) {
  if (like.dim() == 0) return index.view(at::IntArrayRef());
  if (like.dim() == 1 && index.dim() == 1) return index;
  at::DimVector strides(size_t(like.dim()), 0), full(like.sizes().begin(), like.sizes().end());
  full[size_t(dim)] = index.numel();
  strides[size_t(dim)] = index.dim() == 0 ? 1 : index.stride(0);
  return at::native::as_strided_tensorimpl(index, full, strides, index.storage_offset());
}

namespace {

bool can_add(const Tensor& self) {
  const Tag tag = tag_of(self);
  return is_plain(self) && tag != Tag::none;
}

// Returns source * alpha. Like the CPU kernel, first casts alpha to the dtype of the source.
Tensor scaled(const Tensor& source, const at::Scalar& alpha) {
  const at::ScalarType type = source.scalar_type();
  check_holds(type, alpha);
  if (type == at::kBool) return alpha.to<bool>() ? source : at::zeros_like(source);
  if (at::isIntegralType(type, false)) return alpha.equal(1) ? source : at::mul(source, alpha.to<int64_t>());
  return alpha.equal(1) ? source : at::mul(source, alpha);
}

bool index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const at::Scalar& alpha,
               Tensor& out) {
  if (!can_add(self) || !is_plain(source)) return false;
  check_same_device("index_add", self, index, source);
  if (!out.defined()) out = at::empty({0}, self.options());  // the meta function needs a defined output
  Structured<at::meta::structured_index_add> outputs(out);
  const int64_t d = outputs.meta(self, dim, index, source, alpha).dim;
  const Tensor &result = outputs.result(), where = dense_index(index);
  check_index("index_add", where, self.dim() ? self.size(d) : 1, d, false);
  if (!result.is_same(self)) result.copy_(self);
  add_rows(result, d, where, scaled(source, alpha), false);
  return outputs.return_or_copy(out);
}

bool index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, Tensor& out) {
  if (!is_bitwise_copyable(self) || !is_plain(source)) return false;
  check_same_device("index_copy", self, index, source);
  Structured<at::meta::structured_index_copy> outputs(out);
  const int64_t d = outputs.meta(self, dim, index, source).dim;
  const Tensor &result = outputs.result(), where = dense_index(index);
  check_index("index_copy", where, self.dim() ? self.size(d) : 1, d, false);
  if (!result.is_same(self)) result.copy_(self);
  if (where.numel() > 0 && result.dim() == 0) {
    result.copy_(source.reshape(-1).select(0, -1));  // a 0-dim self has one element
  } else if (where.numel() > 0) {
    // If self is 1-dim, the source may be 0-dim.
    const Tensor from = source.dim() == result.dim() ? source : source.reshape(expand_index(where, result, d).sizes());
    scatter_along(Scatter::set, {result, expand_index(where, result, d), from}, d, false);
  }
  return outputs.return_or_copy(out);
}

bool fill_rows(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  TORCH_CHECK_INDEX(index.scalar_type() == at::kLong, "index_fill_(): Expected dtype int64 for index.");
  at::assert_no_overlap(self, index);
  if (at::has_internal_overlap(self) == at::MemOverlap::Yes)
    TORCH_WARN(
        "Use of index_fill_ on expanded tensors is deprecated. Please clone() the tensor before performing this "
        "operation.");
  TORCH_CHECK(index.dim() <= 1, "Index has to be a vector/scalar");
  check_same_device("index_fill_", self, index);
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  const Tensor where = dense_index(index);
  check_index("index_fill_", where, self.dim() ? self.size(d) : 1, d, true);
  if (where.numel() > 0 && self.dim() == 0)
    self.fill_(value);  // a 0-dim self has one element
  else if (where.numel() > 0 && self.numel() > 0)
    scatter_along(Scatter::set, {self, expand_index(where, self, d), value.to(self.options()), true}, d, true);
  return true;
}
bool index_fill_scalar(Tensor& self, int64_t dim, const Tensor& index, const at::Scalar& value) {
  if (!is_bitwise_copyable(self)) return false;
  TORCH_CHECK(!value.isComplex() || self.is_complex(),
              "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  check_holds(self.scalar_type(), value);
  return fill_rows(self, dim, index, at::scalar_tensor(value, self.options()));
}
bool index_fill_tensor(Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  if (!is_bitwise_copyable(self)) return false;
  TORCH_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
              value.dim(), " dimension(s).");
  return fill_rows(self, dim, index, value);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"index_add", &ops::index_add>(m);
  op<"index_copy", &ops::index_copy>(m);
  op<"index_fill_.int_Scalar", &index_fill_scalar>(m);
  op<"index_fill_.int_Tensor", &index_fill_tensor>(m);
}

}  // namespace mpsx::ops
