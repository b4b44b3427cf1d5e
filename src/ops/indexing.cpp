#include "ops/indexing.h"

#include <ATen/ops/empty.h>

#include "ops/narrow.h"
#include "runtime/device_error.h"

namespace mpsx::ops {

void check_index(const char* op, const Tensor& index, int64_t size, int64_t dimension, bool negative) {
  static const KernelSet check("index_check");
  if (index.numel() == 0) return;
  CheckParams p{};
  p.size = size;
  p.count = index.numel();
  p.dimension = uint32_t(dimension);
  p.negative = negative;
  Launch(check.get())
      .inputs(index)
      .bytes(p)
      .pointer(runtime::device_error_record(op))
      .threads(ceil_div(uint64_t(p.count), kChecked))
      .work(kChecked)
      .run();
  runtime::check_device_errors();
}

void launch_index_rows(const char* op, const Tensor& out, const Tensor& in, const Tensor& index, int64_t outer,
                       int64_t row, RowsParams p, bool checked) {
  static const KernelSet rows("index_rows"), elements("index_elements");
  const Tensor dense = dense_index(index);
  p.count = grid_size(op, dense.numel());
  p.row = grid_size(op, row);
  if ((out.numel() == 0 || row == 1) && !checked) check_index(op, dense, p.size, p.dimension, p.negative);
  if (out.numel() == 0) return;
  if (row == 1) {
    Launch(elements.get(bits_tag(in)))
        .outputs(out)
        .inputs(in, dense)
        .bytes(p)
        .threads(p.count, grid_size(op, outer))
        .run();
    return;
  }
  constexpr uint32_t kGroupBytes = 4096;  // bytes to copy per threadgroup
  const auto bytes = uint64_t(in.element_size()), row_bytes = uint64_t(row) * bytes;
  p.vectorized =
      aligned(out, in) && runtime::is_vector_aligned(row_bytes | uint64_t(p.pitch) * bytes | uint64_t(p.outer) * bytes);
  p.rows_per_group = uint32_t(std::clamp<uint64_t>(kGroupBytes / row_bytes, 1, 32));
  Launch(rows.get(bits_tag(in)))
      .outputs(out)
      .inputs(in, dense)
      .bytes(p)
      .pointer(runtime::device_error_record(op))
      .groups({uint32_t(ceil_div(p.count, p.rows_per_group)), grid_size(op, outer), 1},
              runtime::threads_for_row(row_bytes * p.rows_per_group / 16))
      .work(uint64_t(row) * p.rows_per_group)
      .run();
  runtime::check_device_errors();
}

// Returns whether every slice along the first dimension is dense.
static bool has_dense_rows(const Tensor& t) {
  int64_t step = 1;
  for (int64_t d = t.dim() - 1; d > 0; --d) {
    if (t.size(d) != 1 && t.stride(d) != step) return false;
    step *= t.size(d);
  }
  return t.dim() > 0;
}

void select_rows_into(const char* op, const Tensor& out, const Tensor& self, int64_t dim, const Tensor& index) {
  // If the tensor is expanded along a dimension other than `dim`, select only once and then expand the result.
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (d == dim || self.stride(d) != 0 || self.size(d) < 2 || out.numel() == 0) continue;
    at::DimVector sizes(out.sizes().begin(), out.sizes().end());
    sizes[size_t(d)] = 1;
    const Tensor once = at::empty(sizes, out.options());
    select_rows_into(op, once, narrowed(self, d, 0, 1), dim, index);
    out.copy_(once.expand(out.sizes()));
    return;
  }
  // The kernel supports any row stride, but each row must be dense.
  const bool rows = dim == 0 && has_dense_rows(self);
  const Tensor in = rows ? self : self.contiguous();
  const Blocks blocks(in.sizes(), dim);
  RowsParams p{};
  p.size = blocks.size;
  p.outer = blocks.size * blocks.inner;
  p.pitch = rows ? self.stride(0) : blocks.inner;
  p.dimension = uint32_t(dim);
  launch_index_rows(op, out, in, index, blocks.outer, blocks.inner, p);
}

}  // namespace mpsx::ops
