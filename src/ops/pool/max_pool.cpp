// max_pool2d_with_indices and its backward; max_pool1d and max_pool2d of PyTorch go through them.
#include <ATen/ops/max_pool2d_with_indices_backward_meta.h>
#include <ATen/ops/max_pool2d_with_indices_meta.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/pool/pool.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

bool has_kernel(const Tensor& t) {
  const Tag tag = tag_of(t);
  return is_plain(t) && tag != Tag::none && tag != Tag::b8 && tag != Tag::c64;
}

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

template <typename Outputs>
void forward(Outputs& outputs, const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
             IntArrayRef dilation, bool ceil_mode) {
  static const KernelSet planes("max_pool2d"), last("max_pool2d_last");
  outputs.meta(self, kernel, stride, padding, dilation, ceil_mode);
  const Tensor &out = outputs.result(0), &indices = outputs.result(1);
  if (out.numel() > 0) {
    const PoolLayout layout(self, self.suggest_memory_format());
    const Tensor in = self.contiguous(layout.format);
    Pool2dParams p = pool_params(in, out.sizes());
    set_window(p, kernel, stride, padding, dilation);
    const uint64_t row = layout.row(p.out_w);
    Launch((layout.last ? last : planes).get(tag_of(self)))
        .pointer(out.data_ptr())
        .pointer(indices.data_ptr())
        .pointer(in.const_data_ptr())
        .bytes(p)
        .groups(layout.grid(p.out_h, p.out_w), runtime::threads_for_row(row * 4))
        .work(row * uint64_t(p.kernel_h) * uint64_t(p.kernel_w))
        .run();
  }
  outputs.finish();
}

std::tuple<Tensor, Tensor> max_pool2d(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                                      IntArrayRef dilation, bool ceil_mode) {
  if (!has_kernel(self))
    return fallback_call<std::tuple<Tensor, Tensor>>("aten::max_pool2d_with_indices", "", self, kernel, stride, padding,
                                                     dilation, ceil_mode);
  Structured<at::meta::structured_max_pool2d_with_indices, 2> outputs;
  forward(outputs, self, kernel, stride, padding, dilation, ceil_mode);
  return {outputs.result(0), outputs.result(1)};
}

std::tuple<Tensor&, Tensor&> max_pool2d_out(const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                            IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out,
                                            Tensor& indices) {
  if (!has_kernel(self)) {
    fallback_call<std::tuple<Tensor, Tensor>>("aten::max_pool2d_with_indices", "out", self, kernel, stride, padding,
                                              dilation, ceil_mode, out, indices);
    return {out, indices};
  }
  Structured<at::meta::structured_max_pool2d_with_indices, 2> outputs(out, indices);
  forward(outputs, self, kernel, stride, padding, dilation, ceil_mode);
  return {out, indices};
}

// Windows beside each other, so that an input element is in one at most.
bool tile(const Pool2dParams& p) {
  const auto tiles = [](int32_t size, int32_t step, int32_t pad, int32_t gap, int32_t out, int32_t in) {
    return size == step && pad == 0 && gap == 1 && out <= in / step;
  };
  return tiles(p.kernel_h, p.stride_h, p.pad_h, p.dilation_h, p.out_h, p.in_h) &&
         tiles(p.kernel_w, p.stride_w, p.pad_w, p.dilation_w, p.out_w, p.in_w);
}

void tiled_backward(const Tensor& grad_input, const Tensor& grad, const Tensor& where, const Pool2dParams& p,
                    const PoolLayout& layout) {
  static const KernelSet planes("max_pool2d_bwd_tiled"), last("max_pool2d_bwd_last_tiled");
  if (p.out_h * p.stride_h < p.in_h || p.out_w * p.stride_w < p.in_w) grad_input.zero_();
  const uint64_t box = uint64_t(p.kernel_h) * uint64_t(p.kernel_w);
  Launch launch((layout.last ? last : planes).get(tag_of(grad_input)));
  launch.pointer(grad_input.data_ptr()).pointer(grad.const_data_ptr()).pointer(where.const_data_ptr()).bytes(p);
  if (layout.last) {
    const uint64_t row = layout.row(p.out_w);
    launch.groups(layout.grid(p.out_h, p.out_w), runtime::threads_for_row(row * 4)).work(row * box);
  } else {
    const uint32_t piece = runtime::driver().info().vector_bytes == 0 ? kPoolTile : 1, columns = uint32_t(p.out_w);
    launch.threads((columns + piece - 1) / piece, uint64_t(p.out_h), uint64_t(layout.images * layout.channels))
        .work(std::min(piece, columns) * box);
  }
  launch.run();
}

template <typename Outputs>
void backward(Outputs& outputs, const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
              IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& indices) {
  static const KernelSet planes("max_pool2d_bwd"), last("max_pool2d_bwd_last");
  outputs.meta(grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices);
  const Tensor& grad_input = outputs.result();
  if (grad_input.numel() > 0) {
    const PoolLayout layout(self, self.suggest_memory_format());
    const Tensor grad = grad_output.contiguous(layout.format), where = indices.contiguous(layout.format);
    Pool2dParams p = pool_params(self, grad.sizes());
    set_window(p, kernel, stride, padding, dilation);
    if (tile(p)) {
      tiled_backward(grad_input, grad, where, p, layout);
      return outputs.finish();
    }
    // A CPU thread takes a band of rows of up to this many elements; kBand in metal/pool/max_pool.metal.
    constexpr int32_t kBand = 2048;
    const bool one_element = runtime::driver().info().vector_bytes > 0;
    p.band = one_element ? 1 : layout.last ? kPoolTile : std::clamp(kBand / p.in_w, 1, p.in_h);
    const uint64_t row = layout.row(p.in_w) * uint64_t(layout.last ? std::min(p.band, p.in_w) : p.band);
    const auto pieces = [&](int32_t n) { return (n + p.band - 1) / p.band; };
    const auto grid = layout.last ? layout.grid(p.in_h, pieces(p.in_w)) : layout.grid(pieces(p.in_h), p.in_w);
    Launch((layout.last ? last : planes).get(tag_of(self)))
        .pointer(grad_input.data_ptr())
        .pointer(grad.const_data_ptr())
        .pointer(where.const_data_ptr())
        .bytes(p)
        .groups(grid, runtime::threads_for_row(layout.row(p.in_w) * (layout.last ? 4 : uint64_t(p.band) * 4)))
        .work(row * 2)
        .run();
  }
  outputs.finish();
}

Tensor max_pool2d_backward(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                           IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& indices) {
  if (!has_kernel(self))
    return fallback_call<Tensor>("aten::max_pool2d_with_indices_backward", "", grad_output, self, kernel, stride,
                                 padding, dilation, ceil_mode, indices);
  Structured<at::meta::structured_max_pool2d_with_indices_backward> outputs;
  backward(outputs, grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices);
  return outputs.result();
}

Tensor& max_pool2d_backward_out(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, const Tensor& indices,
                                Tensor& grad_input) {
  if (!has_kernel(self)) {
    fallback_call<Tensor>("aten::max_pool2d_with_indices_backward", "grad_input", grad_output, self, kernel, stride,
                          padding, dilation, ceil_mode, indices, grad_input);
    return grad_input;
  }
  Structured<at::meta::structured_max_pool2d_with_indices_backward> outputs(grad_input);
  backward(outputs, grad_output, self, kernel, stride, padding, dilation, ceil_mode, indices);
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("max_pool2d_with_indices", &max_pool2d);
  m.impl("max_pool2d_with_indices.out", &max_pool2d_out);
  m.impl("max_pool2d_with_indices_backward", &max_pool2d_backward);
  m.impl("max_pool2d_with_indices_backward.grad_input", &max_pool2d_backward_out);
}

}  // namespace mpsx::ops
