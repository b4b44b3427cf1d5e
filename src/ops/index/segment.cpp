// Sums rows by key, for embedding_dense_backward and other operators.
#include "ops/index/segment.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/indexing.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

constexpr uint64_t kGroupBytes = 1024;  // bytes of rows that each threadgroup sums

struct Order {
  Tensor keys, rows;
};

// Sorts an index stably by value. First wraps values into range, because the kernel may run before an out-of-range
// index is reported.
Order order_by(const Tensor& index, int64_t size) {
  // Use the narrowest type, because the sort makes one pass per byte of the key.
  const auto type = size <= 1 << 7 ? at::kChar : size <= 1 << 15 ? at::kShort : at::kInt;
  const auto [keys, rows] = at::sort(at::remainder(index.flatten(), size).to(type), /*stable=*/true, 0, false);
  return {keys.to(at::kInt), rows};
}

}  // namespace

void launch_segment_sum(const Tensor& out, const Tensor& in, const Tensor& index, int64_t size, int64_t outer,
                        int64_t row, SegmentParams p) {
  static const KernelSet sum("segment_sum");
  if (in.numel() == 0 || size == 0) return;
  const Order order = order_by(index, size);
  p.count = uint32_t(index.numel());
  p.row = grid_size("segment_sum", row);
  const uint64_t row_bytes = uint64_t(row) * uint64_t(out.element_size());
  p.vectorized = aligned(out, in) && runtime::is_vector_aligned(row_bytes);
  p.rows_per_group = uint32_t(std::clamp<uint64_t>(kGroupBytes / row_bytes, 1, 64));
  Launch(sum.get(tag_of(out)))
      .outputs(out)
      .inputs(in, order.keys, order.rows)
      .bytes(p)
      .groups({uint32_t(ceil_div(p.count, p.rows_per_group)), grid_size("segment_sum", outer), 1},
              runtime::threads_for_row(row_bytes * p.rows_per_group / 4))
      .work(uint64_t(row) * p.rows_per_group)
      .run();
}

namespace {

std::optional<Tensor> embedding_dense_backward(const Tensor& grad_output, const Tensor& indices,
                                               c10::SymInt num_weights, c10::SymInt padding_idx,
                                               bool scale_grad_by_freq) {
  at::checkScalarTypes("embedding_backward", at::TensorArg{indices, "indices", 2}, {at::kLong, at::kInt});
  const Tag tag = tag_of(grad_output);
  const int64_t weights = num_weights.expect_int();
  if (!is_plain(grad_output) || !is_float_tag(tag) || weights > int64_t(UINT32_MAX)) return std::nullopt;
  check_same_device("embedding_dense_backward", grad_output, indices);
  const int64_t row = grad_output.size(-1);
  const Tensor grad = grad_output.contiguous(), index = dense_index(indices);
  TORCH_CHECK(index.numel() < int64_t(UINT32_MAX), "embedding_dense_backward: too many indices: ", index.numel());
  TORCH_CHECK(grad.numel() == index.numel() * row, "embedding_dense_backward: expected a gradient of shape ",
              at::IntArrayRef({index.numel(), row}), " for ", index.numel(), " indices, got ", grad_output.sizes());
  const Tensor out = at::zeros({weights, row}, grad.options());
  check_index("embedding_dense_backward", index, weights, 0, false);
  SegmentParams p{};
  p.pitch = row;
  p.padding = std::max<int64_t>(padding_idx.expect_int(), -1);
  p.by_frequency = scale_grad_by_freq;
  launch_segment_sum(out, grad, index, weights, 1, row, p);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"embedding_dense_backward", &embedding_dense_backward>(m); }

}  // namespace mpsx::ops
