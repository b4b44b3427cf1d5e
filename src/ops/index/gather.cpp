// gather and take.
#include <ATen/MemoryOverlap.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gather_meta.h>
#include <torch/library.h>

#include "ops/strided.h"
#include "ops/indexing.h"
#include "ops/narrow.h"
#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

// Returns whether the index is expanded along all dimensions but `dim`, and therefore selects whole rows.
bool selects_rows(const Tensor& index, int64_t dim) {
  if (index.dim() < 2 || index.numel() == 0) return false;
  int64_t row = 1;
  for (int64_t d = 0; d < index.dim(); ++d) {
    if (d == dim) continue;
    if (index.size(d) > 1 && index.stride(d) != 0) return false;
    row *= index.size(d);
  }
  return row > 1;
}

// `out` must be dense and have the shape of the index.
void gather_into(const Tensor& out, const Tensor& self, int64_t dim, const Tensor& indices) {
  static const KernelSet kernel("gather");
  if (self.dim() == indices.dim() && out.is_contiguous() && selects_rows(indices, dim)) {
    Tensor rows = self;
    for (int64_t d = 0; d < self.dim(); ++d)
      if (d != dim && rows.size(d) != indices.size(d)) rows = narrowed(rows, d, 0, indices.size(d));
    const int64_t size[] = {indices.size(dim)}, stride[] = {indices.stride(dim)};
    return select_rows_into("gather", out, rows, dim,
                            at::native::as_strided_tensorimpl(indices, size, stride, indices.storage_offset()));
  }
  const Tensor index = dense_index(indices);
  check_index("gather", index, self.dim() == 0 ? 1 : self.size(dim), dim, false);
  if (out.numel() == 0) return;
  at::DimVector strides(self.strides().begin(), self.strides().end());
  IndexParams p{};
  p.dim_size = self.dim() == 0 ? 1 : self.size(dim);
  if (!strides.empty()) {
    p.dim_stride = strides[size_t(dim)];
    strides[size_t(dim)] = 0;
  }
  strides.resize(size_t(index.dim()), 0);  // broadcasts a 0-dim self
  const Strided<3> loops(index.sizes(), {out.strides(), strides, index.strides()});
  loops.each(p, 4, [&](const auto& offsets) {
    Launch(kernel.get(bits_tag(self)))
        .pointer(at_element(out, offsets[0]))
        .pointer(at_const_element(self, offsets[1]))
        .pointer(at_const_element(index, offsets[2]))
        .bytes(p)
        .threads(p.size[0], p.size[1], uint64_t(p.size[2]) * p.size[3])
        .run();
  });
}

bool gather(const Tensor& self, int64_t dim, const Tensor& index, bool sparse_grad, Tensor& out) {
  if (!is_bitwise_copyable(self)) return false;
  check_same_device("gather", self, index);
  Structured<at::meta::structured_gather> outputs(out);
  outputs.meta(self, dim, index, sparse_grad);
  gather_into(outputs.result(), self, at::maybe_wrap_dim(dim, self.dim()), index);
  return outputs.return_or_copy(out);
}

bool take(const Tensor& self, const Tensor& index, Tensor& out) {
  if (!is_bitwise_copyable(self)) return false;
  if (out.defined()) {
    TORCH_CHECK(self.scalar_type() == out.scalar_type(),
                "take(): self and out expected to have the same dtype, but got self.dtype = ", self.scalar_type(),
                " and out.dtype = ", out.scalar_type());
    at::assert_no_overlap(out, self);
    at::assert_no_overlap(out, index);
  }
  TORCH_CHECK(index.scalar_type() == at::kLong, "take(): Expected a long tensor for index, but got ",
              index.scalar_type());
  check_same_device("take", self, index);
  TORCH_CHECK_INDEX(self.numel() != 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
  const Tensor result = at::empty(index.sizes(), self.options()), in = self.contiguous();
  RowsParams p{};
  p.size = in.numel();
  p.pitch = 1;
  p.negative = true;
  launch_index_rows("take", result, in, index, 1, 1, p);
  return return_or_copy("take", result, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"gather", &gather>(m);
  op<"take", &take>(m);
}

}  // namespace mpsx::ops
