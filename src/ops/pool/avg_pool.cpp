// avg_pool2d and adaptive_avg_pool2d with their backwards; avg_pool1d and adaptive_avg_pool1d go through them.
#include <ATen/native/Resize.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/pool/pool.h"
#include "ops/structured.h"
#include "ops/pool/whole_avg_pool.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

struct Kernels {
  KernelSet planes, last;
  explicit Kernels(const std::string& stem) : planes(stem), last(stem + "_last") {}
};

// `to` (of h x w planes) is computed from `from`, both dense in `layout`. Backwards a CPU thread does some rows (of
// them, channels_last, some pixels) in turn.
void launch(const Kernels& kernels, const PoolLayout& layout, const Tensor& to, const Tensor& from, Pool2dParams p,
            uint64_t taps, bool backward) {
  const bool tiles = runtime::driver().info().vector_bytes == 0;
  p.band = tiles && backward ? (layout.last ? kPoolTile : kPoolBand) : 1;
  p.row_band = tiles && backward ? kPoolBand : 1;
  const auto pieces = [](int64_t n, int64_t piece) { return (n + piece - 1) / piece; };
  const int64_t h = to.size(-2), w = to.size(-1);
  Launch run((layout.last ? kernels.last : kernels.planes).get(tag_of(to)));
  run.pointer(to.data_ptr()).pointer(from.const_data_ptr()).bytes(p);
  if (layout.last) {
    const int64_t pixels = std::min<int64_t>(p.band, w) * std::min<int64_t>(p.row_band, h);
    run.groups(layout.grid(pieces(h, p.row_band), pieces(w, p.band)),
               runtime::threads_for_row(uint64_t(layout.channels) * 4))
        .work(uint64_t(layout.channels * pixels) * taps);
  } else {
    const int64_t tile = tiles ? kPoolTile : 1;
    run.threads(uint64_t(pieces(w, tile)), uint64_t(pieces(h, p.band)), uint64_t(layout.images * layout.channels))
        .work(uint64_t(std::min(tile, w) * p.band) * taps);
  }
  run.run();
}

void set_window(Pool2dParams& p, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool count_include_pad,
                std::optional<int64_t> divisor) {
  p.kernel_h = pool_size(first_of(kernel));
  p.kernel_w = pool_size(second_of(kernel));
  p.stride_h = pool_size(first_of(stride, p.kernel_h));
  p.stride_w = pool_size(second_of(stride, p.kernel_w));
  p.pad_h = pool_size(first_of(padding));
  p.pad_w = pool_size(second_of(padding));
  p.count_include_pad = count_include_pad;
  p.divisor = pool_size(divisor.value_or(0));
}

const Kernels& regular() {
  static const Kernels kernels("avg_pool2d");
  return kernels;
}

template <typename Outputs>
void forward(Outputs& outputs, const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
             bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
  outputs.meta(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  const Tensor& out = outputs.result();
  if (out.numel() > 0 && is_whole_pool(self)) {
    whole_avg_pool(self, out, kernel, stride, padding, count_include_pad, divisor, 2);
  } else if (out.numel() > 0) {
    const PoolLayout layout(self, self.suggest_memory_format());
    const Tensor in = self.contiguous(layout.format);
    Pool2dParams p = pool_params(in, out.sizes());
    set_window(p, kernel, stride, padding, count_include_pad, divisor);
    launch(regular(), layout, out, in, p, uint64_t(p.kernel_h) * uint64_t(p.kernel_w), false);
  }
  outputs.finish();
}

Tensor avg_pool2d_new(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                      bool count_include_pad, std::optional<int64_t> divisor) {
  if (!has_float_kernel(self) && !is_whole_pool(self))
    return fallback_call<Tensor>("aten::avg_pool2d", "", self, kernel, stride, padding, ceil_mode, count_include_pad,
                                 divisor);
  Structured<at::meta::structured_avg_pool2d> outputs;
  forward(outputs, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  return outputs.result();
}

Tensor& avg_pool2d_out(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                       bool count_include_pad, std::optional<int64_t> divisor, Tensor& out) {
  if ((!has_float_kernel(self) && !is_whole_pool(self)) || out.scalar_type() != self.scalar_type()) {
    fallback_call<Tensor>("aten::avg_pool2d", "out", self, kernel, stride, padding, ceil_mode, count_include_pad,
                          divisor, out);
    return out;
  }
  Structured<at::meta::structured_avg_pool2d> outputs(out);
  forward(outputs, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  return out;
}

template <typename Outputs>
void backward(Outputs& outputs, const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
              IntArrayRef padding, bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor) {
  static const Kernels kernels("avg_pool2d_bwd");
  outputs.meta(grad_output, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  const Tensor& grad_input = outputs.result();
  if (grad_input.numel() > 0) {
    const PoolLayout layout(self, self.suggest_memory_format());
    const Tensor grad = grad_output.contiguous(layout.format);
    Pool2dParams p = pool_params(self, grad.sizes());
    set_window(p, kernel, stride, padding, count_include_pad, divisor);
    launch(kernels, layout, grad_input, grad, p, 4, true);
  }
  outputs.finish();
}

Tensor avg_pool2d_backward_new(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                               IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                               std::optional<int64_t> divisor) {
  if (!has_float_kernel(self))
    return fallback_call<Tensor>("aten::avg_pool2d_backward", "", grad_output, self, kernel, stride, padding, ceil_mode,
                                 count_include_pad, divisor);
  Structured<at::meta::structured_avg_pool2d_backward> outputs;
  backward(outputs, grad_output, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  return outputs.result();
}

Tensor& avg_pool2d_backward_out(const Tensor& grad_output, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                                std::optional<int64_t> divisor, Tensor& grad_input) {
  if (!has_float_kernel(self)) {
    fallback_call<Tensor>("aten::avg_pool2d_backward", "grad_input", grad_output, self, kernel, stride, padding,
                          ceil_mode, count_include_pad, divisor, grad_input);
    return grad_input;
  }
  Structured<at::meta::structured_avg_pool2d_backward> outputs(grad_input);
  backward(outputs, grad_output, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  return grad_input;
}

Tensor adaptive_avg_pool2d_new(const Tensor& self, IntArrayRef output_size) {
  static const Kernels kernels("adaptive_avg_pool2d");
  if (!has_float_kernel(self)) return fallback_call<Tensor>("aten::_adaptive_avg_pool2d", "", self, output_size);
  TORCH_CHECK(output_size.size() == 2, "adaptive_avg_pool2d: output_size must be 2");
  const int64_t ndim = self.dim();
  TORCH_CHECK(ndim == 3 || ndim == 4, "adaptive_avg_pool2d(): Expected 3D or 4D tensor, but got ", self.sizes());
  for (const int64_t d : {-2, -1})
    TORCH_CHECK(
        self.size(d) > 0,
        "adaptive_avg_pool2d(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
        self.sizes(), " with dimension ", d + ndim, " being empty");
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  sizes[size_t(ndim - 2)] = output_size[0];
  sizes[size_t(ndim - 1)] = output_size[1];
  const PoolLayout layout(self, self.suggest_memory_format());
  const Tensor out = at::empty(sizes, self.options().memory_format(layout.format));
  if (out.numel() == 0) return out;
  const Tensor in = self.contiguous(layout.format);
  Pool2dParams p = pool_params(in, sizes);
  if (p.in_h % p.out_h == 0 && p.in_w % p.out_w == 0 && p.out_w > 1) {
    const int64_t window[] = {p.in_h / p.out_h, p.in_w / p.out_w};
    set_window(p, window, window, {0}, true, {});
    launch(regular(), layout, out, in, p, uint64_t(window[0] * window[1]), false);
    return out;
  }
  launch(kernels, layout, out, in, p, uint64_t((p.in_h / p.out_h + 1) * (p.in_w / p.out_w + 1)), false);
  return out;
}

Tensor& adaptive_avg_pool2d_out(const Tensor& self, IntArrayRef output_size, Tensor& out) {
  if (!has_float_kernel(self))
    return fallback_call<Tensor>("aten::adaptive_avg_pool2d", "out", self, output_size, out), out;
  TORCH_CHECK(out.scalar_type() == self.scalar_type(), "expected dtype ", self.scalar_type(),
              " for `output` but got dtype ", out.scalar_type());
  const Tensor result = adaptive_avg_pool2d_new(self, output_size);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result), out;
}

Tensor adaptive_avg_pool2d_backward_new(const Tensor& grad_output, const Tensor& self) {
  static const Kernels kernels("adaptive_avg_pool2d_bwd");
  if (!has_float_kernel(self))
    return fallback_call<Tensor>("aten::_adaptive_avg_pool2d_backward", "", grad_output, self);
  TORCH_CHECK(grad_output.dim() == self.dim() && (self.dim() == 3 || self.dim() == 4),
              "adaptive_avg_pool2d_backward(): Expected 3D or 4D tensor, but got ", self.sizes());
  TORCH_CHECK(self.scalar_type() == grad_output.scalar_type(), "expected dtype ", self.scalar_type(),
              " for `grad_output` but got dtype ", grad_output.scalar_type());
  const PoolLayout layout(self, self.suggest_memory_format());
  const Tensor grad_input = at::empty(self.sizes(), self.options().memory_format(layout.format));
  if (grad_input.numel() == 0 || grad_output.numel() == 0) return grad_input.zero_();
  const Tensor grad = grad_output.contiguous(layout.format);
  launch(kernels, layout, grad_input, grad, pool_params(self, grad.sizes()), 4, true);
  return grad_input;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("avg_pool2d", &avg_pool2d_new);
  m.impl("avg_pool2d.out", &avg_pool2d_out);
  m.impl("avg_pool2d_backward", &avg_pool2d_backward_new);
  m.impl("avg_pool2d_backward.grad_input", &avg_pool2d_backward_out);
  m.impl("_adaptive_avg_pool2d", &adaptive_avg_pool2d_new);
  m.impl("adaptive_avg_pool2d.out", &adaptive_avg_pool2d_out);
  m.impl("_adaptive_avg_pool2d_backward", &adaptive_avg_pool2d_backward_new);
}

}  // namespace mpsx::ops
