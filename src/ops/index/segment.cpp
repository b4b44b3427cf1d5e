// Rows added up by key, and embedding_dense_backward.
#include "ops/index/segment.h"

#include <ATen/TensorUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/indexing.h"
#include "ops/operator.h"
#include "runtime/device_error.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kDigits = 256;  // as in metal/index/segment.metal
constexpr uint64_t kChunk = 1024, kMostChunks = 4096;

struct Order {
  Tensor keys, rows;
};

// The positions of an index ordered by its values, equal ones in their own order.
Order order_by(const Tensor& index, int64_t size) {
  static const KernelSet start("order_start"), count("order_count"), scan("order_scan"), place("order_place");
  const auto options = index.options().dtype(at::kInt);
  const int64_t n = index.numel();
  Order now{at::empty({n}, options), at::empty({n}, options)}, next{at::empty({n}, options), at::empty({n}, options)};
  Launch(start.get())
      .pointer(now.keys.data_ptr())
      .pointer(now.rows.data_ptr())
      .pointer(index.const_data_ptr())
      .bytes(size)
      .threads(uint64_t(n))
      .run();
  OrderParams p{};
  p.count = uint32_t(n);
  p.chunks = uint32_t(std::min((uint64_t(n) + kChunk - 1) / kChunk, kMostChunks));
  p.chunk = (p.count + p.chunks - 1) / p.chunks;
  const Tensor histogram = at::empty({int64_t(p.chunks) + 1, kDigits}, options);
  for (p.shift = 0; p.shift < 32 && (p.shift == 0 || (size - 1) >> p.shift > 0); p.shift += 8) {
    Launch(count.get())
        .pointer(histogram.data_ptr())
        .pointer(now.keys.const_data_ptr())
        .bytes(p)
        .threads(p.chunks)
        .work(p.chunk)
        .run();
    Launch(scan.get()).pointer(histogram.data_ptr()).bytes(p).threads(uint64_t(kDigits)).work(p.chunks).run();
    Launch(place.get())
        .pointer(next.keys.data_ptr())
        .pointer(next.rows.data_ptr())
        .pointer(now.keys.const_data_ptr())
        .pointer(now.rows.const_data_ptr())
        .pointer(histogram.data_ptr())
        .bytes(p)
        .threads(p.chunks)
        .work(p.chunk)
        .run();
    std::swap(now, next);
  }
  return now;
}

}  // namespace

void launch_segment_sum(const Tensor& out, const Tensor& in, const Tensor& index, int64_t size, int64_t outer,
                        int64_t row, SegmentParams p) {
  static const KernelSet sum("segment_sum");
  if (in.numel() == 0) return;
  runtime::wait_for_device_errors();  // of the check of `index`: ordering by it, and adding, would go astray
  const Order order = order_by(index, size);
  p.count = uint32_t(index.numel());
  p.row = grid_size("segment_sum", row);
  Launch(sum.get(tag_of(out)))
      .pointer(out.data_ptr())
      .pointer(in.const_data_ptr())
      .pointer(order.keys.const_data_ptr())
      .pointer(order.rows.const_data_ptr())
      .bytes(p)
      .groups({p.count, grid_size("segment_sum", outer), 1}, runtime::threads_for_row(uint64_t(row) * 4))
      .work(uint64_t(row))
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
  TORCH_CHECK(
      grad_output.device() == indices.device(),
      "embedding_dense_backward: Expected all tensors to be on the same device, but found at least two devices, ",
      grad_output.device(), " and ", indices.device());
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
