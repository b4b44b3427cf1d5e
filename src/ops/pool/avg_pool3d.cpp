// avg_pool3d and adaptive_avg_pool3d with their backwards: an average is a sum with weights along each dimension.
#include <ATen/native/AdaptivePooling.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>

#include "ops/pool/pool.h"
#include "ops/resample/resample.h"
#include "ops/structured.h"
#include "ops/pool/whole_avg_pool.h"

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

// Boxes that one kernel adds up at once; of others each dimension is averaged in turn.
constexpr int64_t kSmallBox = 64;

struct Boxes {
  Pool3dParams p{};
  int64_t taps = 1;  // elements of a box
  bool is_regular;

  Boxes(IntArrayRef in, IntArrayRef out, bool regular) : is_regular(regular) {
    for (size_t d = 0; d < 3; ++d) {
      p.in[d] = pool_size(in[in.size() - 3 + d]);
      p.out[d] = pool_size(out[out.size() - 3 + d]);
    }
  }
  static Boxes regular(IntArrayRef in, IntArrayRef out, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding,
                       bool count_include_pad, std::optional<int64_t> divisor) {
    Boxes b(in, out, true);
    for (size_t d = 0; d < 3; ++d) {
      b.p.kernel[d] = pool_size(window_argument(kernel, d, 1));
      b.p.stride[d] = pool_size(window_argument(stride, d, b.p.kernel[d]));
      b.p.pad[d] = pool_size(window_argument(padding, d, 0));
      b.taps *= b.p.kernel[d];
    }
    b.p.count_include_pad = count_include_pad;
    b.p.divisor = pool_size(divisor.value_or(0));
    return b;
  }
  static Boxes adaptive(IntArrayRef in, IntArrayRef out) {
    Boxes b(in, out, false);
    for (size_t d = 0; d < 3; ++d) {
      const int64_t n = std::max(b.p.out[d], 1);
      b.taps *= b.p.in[d] / n + (b.p.in[d] % n == 0 ? 0 : 2);
    }
    return b;
  }
  // false: nothing was done.
  bool average(const Tensor& from, const Tensor& to) const {
    static const KernelSet windows("avg_pool3d"), shares("adaptive_avg_pool3d");
    if (taps > kSmallBox || int64_t(p.in[0]) * p.in[1] * p.in[2] > INT32_MAX || !to.is_contiguous()) return false;
    if (to.numel() == 0) return true;
    const Tensor in = from.contiguous();
    const uint32_t tile = runtime::driver().info().vector_bytes == 0 ? kPoolTile : 1, columns = uint32_t(p.out[2]);
    const uint64_t rows = uint64_t(p.out[0]) * uint64_t(p.out[1]);
    Launch((is_regular ? windows : shares).get(tag_of(to)))
        .pointer(to.mutable_data_ptr())
        .pointer(in.const_data_ptr())
        .bytes(p)
        .threads((columns + tile - 1) / tile, rows, uint64_t(to.numel()) / (rows * columns))
        .work(uint64_t(std::min(tile, columns)) * uint64_t(std::max<int64_t>(taps, 1)))
        .run();
    return true;
  }
};

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
  if (!is_whole_pool(self)) {
    if (!Boxes::regular(self.sizes(), result.sizes(), kernel, stride, padding, count_include_pad, divisor)
             .average(self, result))
      run(self, regular(self.sizes(), result.sizes(), kernel, stride, padding, count_include_pad, divisor, false),
          result);
  } else {
    whole_avg_pool(self, result, kernel, stride, padding, count_include_pad, divisor, 3);
  }
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
  if (!Boxes::adaptive(self.sizes(), sizes).average(self, result))
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
