// avg_pool3d and adaptive_avg_pool3d with their backwards: an average is a sum with weights along each dimension.
#include <ATen/native/AdaptivePooling.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/pool.h"
#include "ops/resample.h"
#include "ops/structured.h"
#include "ops/whole_avg_pool.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;

// Regular windows of one dimension. The divisor of a window is the product of those of its dimensions.
struct Window {
  int64_t size, stride, padding;
  bool count_include_pad;
  double divisor;  // 0: what the window counts

  Taps taps(int64_t in, int64_t out) const {
    Taps t(in);
    for (int64_t o = 0; o < out; ++o) {
      const int64_t start = o * stride - padding, end = std::min(start + size, in + padding);
      const int64_t first = std::max<int64_t>(start, 0), last = std::min(end, in);
      const double counted = divisor != 0 ? divisor : double(count_include_pad ? end - start : last - first);
      for (int64_t i = first; i < last; ++i) t.add(i, 1 / counted);
      t.end_element();
    }
    return t;
  }
};

std::vector<Resampling> regular(IntArrayRef in, IntArrayRef out, IntArrayRef kernel, IntArrayRef stride,
                                IntArrayRef padding, bool count_include_pad, std::optional<int64_t> divisor,
                                bool transposed) {
  std::vector<Resampling> steps;
  for (size_t d = 0; d < 3; ++d) {
    const size_t dim = in.size() - 3 + d;
    const int64_t size = window_argument(kernel, d, 1);
    const double divided = divisor ? (d == 0 ? double(*divisor) : 1.0) : 0.0;
    const Window window{size, window_argument(stride, d, size), window_argument(padding, d, 0), count_include_pad,
                        divided};
    Taps taps = window.taps(in[dim], out[dim]);
    steps.emplace_back(int64_t(dim), std::move(taps), transposed);
  }
  return steps;
}
std::vector<Resampling> adaptive(IntArrayRef in, IntArrayRef out, bool transposed) {
  std::vector<Resampling> steps;
  for (size_t dim = in.size() - 3; dim < in.size(); ++dim) {
    Taps taps(in[dim]);
    for (int64_t o = 0; o < out[dim]; ++o) {
      const int64_t first = at::native::start_index(o, out[dim], in[dim]);
      const int64_t last = at::native::end_index(o, out[dim], in[dim]);
      for (int64_t i = first; i < last; ++i) taps.add(i, 1.0 / double(last - first));
      taps.end_element();
    }
    steps.emplace_back(int64_t(dim), std::move(taps), transposed);
  }
  return steps;
}

// resample knows the dimensions of a batch; a single image gets one.
Tensor batched(const Tensor& t) { return t.dim() == 4 ? t.unsqueeze(0) : t; }
void run(const Tensor& in, std::vector<Resampling> steps, const Tensor& out) {
  if (in.dim() == 4)
    for (auto& step : steps) ++step.dim;
  resample(batched(in), std::move(steps), batched(out));
}

Tensor& avg_pool3d_out(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
                       bool count_include_pad, std::optional<int64_t> divisor, Tensor& out) {
  if ((!resamples(self) && !is_whole_pool(self)) || out.scalar_type() != self.scalar_type())
    return fallback_call<Tensor>("aten::avg_pool3d", "out", self, kernel, stride, padding, ceil_mode, count_include_pad,
                                 divisor, out),
           out;
  Structured<at::meta::structured_avg_pool3d> outputs(out);
  outputs.meta(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  const Tensor& result = outputs.result();
  if (!is_whole_pool(self))
    run(self, regular(self.sizes(), result.sizes(), kernel, stride, padding, count_include_pad, divisor, false),
        result);
  else if (result.numel() > 0)
    result.copy_(whole_avg_pool(self, result.sizes(), kernel, stride, padding, count_include_pad, divisor, 3));
  outputs.finish();
  return out;
}
Tensor& avg_pool3d_backward_out(const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                                IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                                std::optional<int64_t> divisor, Tensor& grad_input) {
  if (!resamples(grad) || grad_input.scalar_type() != grad.scalar_type())
    return fallback_call<Tensor>("aten::avg_pool3d_backward", "grad_input", grad, self, kernel, stride, padding,
                                 ceil_mode, count_include_pad, divisor, grad_input),
           grad_input;
  Structured<at::meta::structured_avg_pool3d_backward> outputs(grad_input);
  outputs.meta(grad, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  const Tensor& result = outputs.result();
  run(grad, regular(self.sizes(), grad.sizes(), kernel, stride, padding, count_include_pad, divisor, true), result);
  outputs.finish();
  return grad_input;
}

Tensor& adaptive_avg_pool3d_out(const Tensor& self, IntArrayRef size, Tensor& out) {
  if (!resamples(self) || out.scalar_type() != self.scalar_type())
    return fallback_call<Tensor>("aten::adaptive_avg_pool3d", "out", self, size, out), out;
  TORCH_CHECK(size.size() == 3, "adaptive_avg_pool3d: internal error: output_size.size() must be 3");
  TORCH_CHECK(self.dim() == 4 || self.dim() == 5, "adaptive_avg_pool3d(): Expected 4D or 5D tensor, but got ",
              self.sizes());
  c10::DimVector sizes(self.sizes());
  for (size_t d = 0; d < 3; ++d) {
    int64_t& n = sizes[sizes.size() - 3 + d];
    TORCH_CHECK(n > 0,
                "adaptive_avg_pool3d(): Expected input to have non-zero size for non-batch dimensions, but "
                "input has sizes ",
                self.sizes());
    TORCH_CHECK(size[d] >= 0, "adaptive_avg_pool3d: elements of output_size must be greater than or equal to 0, got ",
                size);
    n = size[d];
  }
  at::native::resize_output(out, sizes);
  const bool fits = is_plain(out) && out.is_contiguous(out.suggest_memory_format());
  const Tensor result = fits ? out : at::empty(sizes, self.options());
  run(self, adaptive(self.sizes(), sizes, false), result);
  if (!fits) out.copy_(result);
  return out;
}
Tensor adaptive_avg_pool3d(const Tensor& self, IntArrayRef size) {
  if (!resamples(self)) return fallback_call<Tensor>("aten::_adaptive_avg_pool3d", "", self, size);
  Tensor out = at::empty({0}, self.options());
  return adaptive_avg_pool3d_out(self, size, out);
}
Tensor& adaptive_avg_pool3d_backward_out(const Tensor& grad, const Tensor& self, Tensor& grad_input) {
  if (!resamples(grad) || grad_input.scalar_type() != grad.scalar_type())
    return fallback_call<Tensor>("aten::adaptive_avg_pool3d_backward", "grad_input", grad, self, grad_input),
           grad_input;
  TORCH_CHECK(grad.dim() == self.dim() && grad.size(0) == self.size(0) && grad.dim() >= 4,
              "adaptive_avg_pool3d_backward: expected a gradient of the result's shape for input ", self.sizes(),
              ", got ", grad.sizes());
  at::native::resize_output(grad_input, self.sizes());
  const bool fits = is_plain(grad_input) && grad_input.is_contiguous(grad_input.suggest_memory_format());
  const Tensor result = fits ? grad_input : at::empty(self.sizes(), grad.options());
  run(grad, adaptive(self.sizes(), grad.sizes(), true), result);
  if (!fits) grad_input.copy_(result);
  return grad_input;
}
Tensor adaptive_avg_pool3d_backward(const Tensor& grad, const Tensor& self) {
  if (!resamples(grad)) return fallback_call<Tensor>("aten::_adaptive_avg_pool3d_backward", "", grad, self);
  Tensor grad_input = at::empty({0}, grad.options());
  return adaptive_avg_pool3d_backward_out(grad, self, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("avg_pool3d.out", &avg_pool3d_out);
  m.impl("avg_pool3d_backward.grad_input", &avg_pool3d_backward_out);
  m.impl("adaptive_avg_pool3d.out", &adaptive_avg_pool3d_out);
  m.impl("_adaptive_avg_pool3d", &adaptive_avg_pool3d);
  m.impl("adaptive_avg_pool3d_backward.grad_input", &adaptive_avg_pool3d_backward_out);
  m.impl("_adaptive_avg_pool3d_backward", &adaptive_avg_pool3d_backward);
}

}  // namespace mpsx::ops
