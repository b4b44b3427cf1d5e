// max_pool2d_with_indices and its backward pass. PyTorch's max_pool1d and max_pool2d call them.
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>

#include <algorithm>
#include <bit>

#include "ops/operator.h"
#include "ops/pool/pool.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

constexpr int64_t kRowsThreads = 256;  // threads per threadgroup; a smaller number would need too many threadgroups

void set_window(Pool2dParams& p, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation) {
  p.kernel_h = pool_size(first_of(kernel));
  p.kernel_w = pool_size(second_of(kernel));
  p.stride_h = pool_size(first_of(stride, p.kernel_h));
  p.stride_w = pool_size(second_of(stride, p.kernel_w));
  p.pad_h = pool_size(first_of(padding));
  p.pad_w = pool_size(second_of(padding));
  p.dilation_h = pool_size(first_of(dilation));
  p.dilation_w = pool_size(second_of(dilation));
}

bool max_pool2d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                bool ceil_mode, Tensor& out, Tensor& indices) {
  static const KernelSet planes("max_pool2d"), last("max_pool2d_last");
  if (!has_window_kernel(self)) return false;
  Structured<at::meta::structured_max_pool2d_with_indices, 2> outputs(out, indices);
  outputs.meta(self, kernel, stride, padding, dilation, ceil_mode);
  const Tensor &best = outputs.result(0), &where = outputs.result(1);
  if (best.numel() > 0) {
    const PoolLayout layout(self);
    const Tensor in = self.contiguous(layout.format);
    Pool2dParams p = pool_params(in, best.sizes());
    set_window(p, kernel, stride, padding, dilation);
    p.across = int32_t(std::bit_ceil(uint32_t(std::min<int64_t>(p.out_w, kRowsThreads))));
    p.rows_per_group = layout.last ? 1 : int32_t(std::clamp<int64_t>(2 * kRowsThreads / p.across, 1, p.out_h));
    const auto threads = layout.last ? layout.threads(p.out_w) : uint32_t(kRowsThreads);
    Launch((layout.last ? last : planes).get(tag_of(self)))
        .outputs(best, where)
        .inputs(in)
        .bytes(p)
        .groups(layout.grid(int64_t(ceil_div(uint64_t(p.out_h), uint64_t(p.rows_per_group))), p.out_w), threads)
        .work(layout.row(p.out_w) * uint64_t(p.rows_per_group) * uint64_t(p.kernel_h) * uint64_t(p.kernel_w) * kTapWork)
        .run();
  }
  return outputs.return_or_copy(out, indices);
}

// Returns whether the windows do not overlap, so that every input element is in at most one window.
bool tile(const Pool2dParams& p) {
  const auto tiles = [](int32_t size, int32_t step, int32_t pad, int32_t gap, int32_t out, int32_t in) {
    return size == step && pad == 0 && gap == 1 && out <= in / step;
  };
  return tiles(p.kernel_h, p.stride_h, p.pad_h, p.dilation_h, p.out_h, p.in_h) &&
         tiles(p.kernel_w, p.stride_w, p.pad_w, p.dilation_w, p.out_w, p.in_w);
}

bool max_pool2d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                         IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& indices,
                         Tensor& grad_input) {
  static const KernelSet planes("max_pool2d_bwd"), last("max_pool2d_bwd_last"), planes_tiled("max_pool2d_bwd_tiled"),
      last_tiled("max_pool2d_bwd_last_tiled");
  if (!has_window_kernel(self)) return false;
  Structured<at::meta::structured_max_pool2d_with_indices_backward> outputs(grad_input);
  outputs.meta(grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices);
  const Tensor& result = outputs.result();
  if (result.numel() > 0) {
    const PoolLayout layout(self);
    const Tensor grad = grad_output.contiguous(layout.format), where = indices.contiguous(layout.format);
    Pool2dParams p = pool_params(self, grad.sizes());
    set_window(p, kernel, stride, padding, dilation);
    const bool tiled = tile(p);
    if (tiled && (p.out_h * p.stride_h < p.in_h || p.out_w * p.stride_w < p.in_w)) result.zero_();
    // The grid covers the output if windows do not overlap, and the input otherwise.
    const int32_t h = tiled ? p.out_h : p.in_h, w = tiled ? p.out_w : p.in_w;
    const uint64_t taps = tiled ? uint64_t(p.kernel_h) * uint64_t(p.kernel_w) : 2;
    Launch((tiled ? (layout.last ? last_tiled : planes_tiled) : (layout.last ? last : planes)).get(tag_of(self)))
        .outputs(result)
        .inputs(grad, where)
        .bytes(p)
        .groups(layout.grid(h, w), layout.threads(w))
        .work(layout.row(w) * taps)
        .run();
  }
  return outputs.return_or_copy(grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"max_pool2d_with_indices", &max_pool2d>(m);
  op<"max_pool2d_with_indices_backward", &max_pool2d_backward>(m);
}

}  // namespace mpsx::ops
