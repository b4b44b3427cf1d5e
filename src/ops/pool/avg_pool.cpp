// avg_pool2d, avg_pool3d, their adaptive forms and their backward passes. PyTorch's 1-D operators call the 2-D ones.
// Small windows are averaged in a single pass. Large windows, and all backward passes, average along one dimension at a
// time, because the weights are separable.
#include <ATen/native/AdaptivePooling.h>
#include <ATen/ops/avg_pool2d_backward_meta.h>
#include <ATen/ops/avg_pool2d_meta.h>
#include <ATen/ops/avg_pool3d_backward_meta.h>
#include <ATen/ops/avg_pool3d_meta.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "ops/operator.h"
#include "ops/pool/pool.h"
#include "ops/resample/resample.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using Divisor = std::optional<int64_t>;

constexpr int64_t kSmallBox = 64;  // in elements; larger windows are averaged along one dimension at a time

bool averages(const Tensor& t) { return has_float_kernel(t); }
bool averages_integers(const Tensor& t) { return is_plain(t) && t.scalar_type() == at::kLong; }

// Average pooling over the last `dims` dimensions.
struct AvgPool {
  size_t dims;
  bool adaptive = true;
  IntArrayRef kernel = {}, stride = {}, padding = {};
  bool count_include_pad = false;
  Divisor divisor = std::nullopt;

  int64_t size(size_t d) const { return window_argument(kernel, d, 1); }
  int64_t step(size_t d) const { return window_argument(stride, d, size(d)); }
  int64_t pad(size_t d) const { return window_argument(padding, d, 0); }

  // The range of inputs that an output element averages along a dimension. The divisor of a multi-dimensional window is
  // the product of the divisors along its dimensions.
  struct Window {
    int64_t first, last;
    double divisor;
  };
  Window window(size_t d, int64_t o, int64_t in, int64_t out) const {
    if (adaptive) {
      const int64_t first = at::native::start_index(o, out, in), last = at::native::end_index(o, out, in);
      return {first, last, double(last - first)};
    }
    const int64_t start = o * step(d) - pad(d), end = std::min(start + size(d), in + pad(d));
    const int64_t first = std::max<int64_t>(start, 0), last = std::min(end, in);
    if (divisor) return {first, last, d == 0 ? double(*divisor) : 1.0};
    return {first, last, double(count_include_pad ? end - start : last - first)};
  }

  // Returns one resampling step for each dimension, for the forward or the backward pass.
  std::vector<Resampling> steps(IntArrayRef in, IntArrayRef out, bool backward) const {
    std::vector<Resampling> result;
    for (size_t d = 0; d < dims; ++d) {
      const size_t dim = in.size() - dims + d;
      Taps taps(in[dim]);
      for (int64_t o = 0; o < out[dim]; ++o) {
        const Window w = window(d, o, in[dim], out[dim]);
        for (int64_t i = w.first; i < w.last; ++i) taps.add(i, 1 / w.divisor);
        taps.end_element();
      }
      result.emplace_back(int64_t(dim), std::move(taps), backward);
    }
    return result;
  }

  AvgPoolParams params(IntArrayRef in, IntArrayRef out) const {
    AvgPoolParams p{{1, 1, 1}, {1, 1, 1},        {1, 1, 1},         {1, 1, 1},
                    {0, 0, 0}, pool_size(in[1]), count_include_pad, pool_size(divisor.value_or(0))};
    for (size_t d = 0; d < dims; ++d) {
      const size_t to = 3 - dims + d, dim = in.size() - dims + d;
      p.in[to] = pool_size(in[dim]);
      p.out[to] = pool_size(out[dim]);
      if (adaptive) continue;
      p.kernel[to] = pool_size(size(d));
      p.stride[to] = pool_size(step(d));
      p.pad[to] = pool_size(pad(d));
    }
    return p;
  }
  // Returns the number of elements in the largest window.
  int64_t taps(IntArrayRef in, IntArrayRef out) const {
    int64_t n = 1;
    for (size_t d = 0; d < dims; ++d) {
      const int64_t from = in[in.size() - dims + d], to = out[in.size() - dims + d];
      n *= adaptive ? from / to + (from % to == 0 ? 0 : 2) : size(d);
    }
    return n;
  }
};

Tensor batched(const Tensor& t, size_t dims) { return size_t(t.dim()) == dims + 1 ? t.unsqueeze(0) : t; }

// Writes to `result`, which must be dense in its suggested memory format.
void average(const AvgPool& pool, const Tensor& self, const Tensor& result) {
  static const KernelSet regular("avg_pool"), regular_last("avg_pool_last"), adaptive("adaptive_avg_pool"),
      adaptive_last("adaptive_avg_pool_last");
  if (result.numel() == 0) return;
  const Tensor from = batched(self, pool.dims), out = batched(result, pool.dims);
  const int64_t plane = c10::multiply_integers(from.sizes().slice(2));
  const int64_t taps = pool.taps(from.sizes(), out.sizes());
  const bool whole = averages_integers(self);
  if (!whole && (taps > kSmallBox || plane > INT32_MAX))
    return resample(from, pool.steps(from.sizes(), out.sizes(), false), out);
  TORCH_CHECK(plane <= INT32_MAX, "avg_pool: expected planes of at most 2^31-1 elements, got ", self.sizes());
  const auto format = whole ? at::MemoryFormat::Contiguous : out.suggest_memory_format();
  const bool last = format != at::MemoryFormat::Contiguous;
  const Tensor in = from.contiguous(format),
               to = out.is_contiguous(format) ? out : at::empty(out.sizes(), out.options());
  const AvgPoolParams p = pool.params(from.sizes(), out.sizes());
  const uint64_t rows = uint64_t(p.out[0]) * uint64_t(p.out[1]), images = uint64_t(out.size(0));
  Launch launch((pool.adaptive ? (last ? adaptive_last : adaptive) : (last ? regular_last : regular)).get(tag_of(to)));
  launch.outputs(to).inputs(in).bytes(p);
  if (last)
    launch.groups({uint32_t(p.out[2]), uint32_t(rows), uint32_t(images)}, threads_for_channels(p.channels))
        .work(uint64_t(p.channels * taps) * kTapWork);
  else
    launch.threads(uint64_t(p.out[2]), rows, images * uint64_t(p.channels)).work(uint64_t(taps) * kTapWork);
  launch.run();
  if (!to.is_same(out)) out.copy_(to);
}
void spread(const AvgPool& pool, const Tensor& grad, const Tensor& grad_input) {
  const Tensor from = batched(grad, pool.dims), to = batched(grad_input, pool.dims);
  if (from.numel() == 0)
    to.zero_();
  else
    resample(from, pool.steps(to.sizes(), from.sizes(), true), to);
}

template <size_t D, typename Meta>
bool avg_pool(const Tensor& self, IntArrayRef kernel, IntArrayRef stride, IntArrayRef padding, bool ceil_mode,
              bool count_include_pad, Divisor divisor, Tensor& out) {
  if (!averages(self) && !averages_integers(self)) return false;
  Structured<Meta> outputs(out);
  outputs.meta(self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  average({D, false, kernel, stride, padding, count_include_pad, divisor}, self, outputs.result());
  return outputs.return_or_copy(out);
}

template <size_t D, typename Meta>
bool avg_pool_backward(const Tensor& grad, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                       IntArrayRef padding, bool ceil_mode, bool count_include_pad, Divisor divisor,
                       Tensor& grad_input) {
  if (!averages(self) || !averages(grad) || grad.scalar_type() != self.scalar_type()) return false;
  Structured<Meta> outputs(grad_input);
  outputs.meta(grad, self, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  spread({D, false, kernel, stride, padding, count_include_pad, divisor}, grad, outputs.result());
  return outputs.return_or_copy(grad_input);
}

// As on the CPU, the outputs of 3-D pooling are contiguous.
template <size_t D>
at::MemoryFormat adaptive_format(const Tensor& self) {
  return D == 2 ? self.suggest_memory_format() : at::MemoryFormat::Contiguous;
}

template <size_t D>
bool adaptive_avg_pool(const Tensor& self, IntArrayRef size, Tensor& out) {
  static const std::string op = "adaptive_avg_pool" + std::to_string(D) + "d";
  if (!averages(self)) return false;
  TORCH_CHECK(!out.defined() || out.scalar_type() == self.scalar_type(), "expected dtype ", self.scalar_type(),
              " for `output` but got dtype ", out.scalar_type());
  TORCH_CHECK(size.size() == D, op,
              D == 2 ? ": output_size must be 2" : ": internal error: output_size.size() must be 3");
  TORCH_CHECK(self.dim() == int64_t(D) + 1 || self.dim() == int64_t(D) + 2, op, "(): Expected ", D + 1, "D or ", D + 2,
              "D tensor, but got ", self.sizes());
  c10::DimVector sizes(self.sizes());
  for (size_t d = 0; d < D; ++d) {
    int64_t& n = sizes[sizes.size() - D + d];
    TORCH_CHECK(n > 0, op, "(): Expected input to have non-zero size for non-batch dimensions, but input has sizes ",
                self.sizes(), " with dimension ", sizes.size() - D + d, " being empty");
    TORCH_CHECK(D == 2 || size[d] >= 0, op, ": elements of output_size must be greater than or equal to 0, got ", size);
    n = size[d];
  }
  const Tensor result = at::empty(sizes, self.options().memory_format(adaptive_format<D>(self)));
  // If the size of the input is a multiple of the output's, all windows have the same size and do not overlap. Use the
  // kernels for a fixed window size.
  c10::DimVector window;
  for (size_t d = 0; d < D && size[d] > 0; ++d) {
    const int64_t in = self.size(self.dim() - int64_t(D - d));
    if (in % size[d] == 0) window.push_back(in / size[d]);
  }
  if (window.size() == D)
    average({D, false, window}, self, result);
  else
    average({D}, self, result);
  return return_or_copy(op.c_str(), result, out);
}

template <size_t D>
bool adaptive_avg_pool_backward(const Tensor& grad, const Tensor& self, Tensor& grad_input) {
  static const std::string op = "adaptive_avg_pool" + std::to_string(D) + "d_backward";
  if (!averages(self)) return false;
  TORCH_CHECK(grad.dim() == self.dim() && (self.dim() == int64_t(D) + 1 || self.dim() == int64_t(D) + 2), op,
              "(): Expected ", D + 1, "D or ", D + 2, "D tensor, but got ", self.sizes());
  TORCH_CHECK(self.scalar_type() == grad.scalar_type(), "expected dtype ", self.scalar_type(),
              " for `grad_output` but got dtype ", grad.scalar_type());
  const Tensor result = at::empty(self.sizes(), self.options().memory_format(adaptive_format<D>(self)));
  if (result.numel() > 0) spread({D}, grad, result);
  return return_or_copy(op.c_str(), result, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"avg_pool2d", &avg_pool<2, at::meta::structured_avg_pool2d>>(m);
  op<"avg_pool2d_backward", &avg_pool_backward<2, at::meta::structured_avg_pool2d_backward>>(m);
  op<"avg_pool3d", &avg_pool<3, at::meta::structured_avg_pool3d>>(m);
  op<"avg_pool3d_backward", &avg_pool_backward<3, at::meta::structured_avg_pool3d_backward>>(m);
  op<"adaptive_avg_pool2d", &adaptive_avg_pool<2>>(m);
  op<"_adaptive_avg_pool2d", &adaptive_avg_pool<2>>(m);
  op<"_adaptive_avg_pool2d_backward", &adaptive_avg_pool_backward<2>>(m);
  op<"adaptive_avg_pool3d", &adaptive_avg_pool<3>>(m);
  op<"_adaptive_avg_pool3d", &adaptive_avg_pool<3>>(m);
  op<"_adaptive_avg_pool3d_backward", &adaptive_avg_pool_backward<3>>(m);
  out_op<"adaptive_avg_pool3d_backward.grad_input", &adaptive_avg_pool_backward<3>>(m);
}

}  // namespace mpsx::ops
