// Interpolation: nearest, nearest-exact, linear, bilinear, trilinear and bicubic, with and without antialiasing.
#include <ATen/native/UpSample.h>
#include <ATen/ops/_upsample_bicubic2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bicubic2d_aa_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_backward_meta.h>
#include <ATen/ops/_upsample_bilinear2d_aa_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact1d_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact2d_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_backward_meta.h>
#include <ATen/ops/_upsample_nearest_exact3d_meta.h>
#include <ATen/ops/upsample_bicubic2d_backward_meta.h>
#include <ATen/ops/upsample_bicubic2d_meta.h>
#include <ATen/ops/upsample_bilinear2d_backward_meta.h>
#include <ATen/ops/upsample_bilinear2d_meta.h>
#include <ATen/ops/upsample_linear1d_backward_meta.h>
#include <ATen/ops/upsample_linear1d_meta.h>
#include <ATen/ops/upsample_nearest1d_backward_meta.h>
#include <ATen/ops/upsample_nearest1d_meta.h>
#include <ATen/ops/upsample_nearest2d_backward_meta.h>
#include <ATen/ops/upsample_nearest2d_meta.h>
#include <ATen/ops/upsample_nearest3d_backward_meta.h>
#include <ATen/ops/upsample_nearest3d_meta.h>
#include <ATen/ops/upsample_trilinear3d_backward_meta.h>
#include <ATen/ops/upsample_trilinear3d_meta.h>

#include <algorithm>
#include <cmath>

#include "ops/operator.h"
#include "ops/resample/resample.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using Scale = std::optional<double>;

// ---- Taps. Source indices are computed as in PyTorch (ATen/native/UpSample.h). For nearest, they are bit-exact. The
// other modes match PyTorch's float64 kernels, which its float32 kernels approximate.

template <auto kPlace>
struct Copied {
  static Taps taps(int64_t in, int64_t out, Scale scale) {
    Taps t(in);
    for (int64_t o = 0; o < out; ++o) {
      t.add(kPlace(o, in, out, scale), 1);
      t.end_element();
    }
    return t;
  }
};
using Nearest = Copied<&at::native::nearest_idx>;
using NearestExact = Copied<&at::native::nearest_exact_idx>;
struct Linear {
  static Taps taps(int64_t in, int64_t out, bool align_corners, Scale scale) {
    const double ratio = at::native::area_pixel_compute_scale<double>(in, out, align_corners, scale);
    Taps t(in);
    for (int64_t o = 0; o < out; ++o) {
      int64_t first = 0, second = 0;
      double weight_first = 0, weight_second = 0;
      at::native::compute_source_index_and_lambda(first, second, weight_first, weight_second, ratio, o, in, out,
                                                  align_corners);
      t.add(first, weight_first);
      t.add(second, weight_second);
      t.end_element();
    }
    return t;
  }
};
struct Cubic {
  static Taps taps(int64_t in, int64_t out, bool align_corners, Scale scale) {
    const double ratio = at::native::area_pixel_compute_scale<double>(in, out, align_corners, scale);
    Taps t(in);
    for (int64_t o = 0; o < out; ++o) {
      const double real = at::native::area_pixel_compute_source_index(ratio, o, align_corners, /*cubic=*/true);
      int64_t index = 0;
      double fraction = 0, weights[4];
      at::native::guard_index_and_lambda(real, in, index, fraction);
      at::native::get_cubic_upsample_coefficients(weights, fraction);
      for (int64_t k = 0; k < 4; ++k) t.add(std::clamp<int64_t>(index - 1 + k, 0, in - 1), weights[k]);
      t.end_element();
    }
    return t;
  }
};

// With antialiasing, as in PIL and PyTorch, the filter is as wide as the range of inputs that an output element covers.
template <typename Filter>
struct Smooth {
  static Taps taps(int64_t in, int64_t out, bool align_corners, Scale scale) {
    const double ratio = at::native::area_pixel_compute_scale<double>(in, out, align_corners, scale);
    const double wide = std::max(ratio, 1.0), support = Filter::kWidth * 0.5 * wide;
    Taps t(in);
    std::vector<double> weights;
    for (int64_t o = 0; o < out; ++o) {
      const double center = ratio * (double(o) + 0.5);
      const int64_t first = std::max(int64_t(center - support + 0.5), int64_t(0));
      const int64_t last = std::min(int64_t(center + support + 0.5), in);
      weights.clear();
      double total = 0;
      for (int64_t i = first; i < last; ++i) {
        weights.push_back(Filter::at((double(i) - center + 0.5) / wide));
        total += weights.back();
      }
      for (int64_t i = first; i < last; ++i)
        t.add(i, total != 0 ? weights[size_t(i - first)] / total : weights[size_t(i - first)]);
      t.end_element();
    }
    return t;
  }
};
struct Triangle {
  static constexpr double kWidth = 2;
  static double at(double x) { return std::max(0.0, 1.0 - std::abs(x)); }
};
struct Keys {  // R. G. Keys, "Cubic convolution interpolation for digital image processing", 1981, with a = -0.5
  static constexpr double kWidth = 4;
  static double at(double x) {
    x = std::abs(x);
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
  }
};

// ---- Operators

// Plans the resampling of the last D dimensions. Each dimension has its own scale.
template <typename Kind, size_t D, typename... Align>
std::vector<Resampling> plan(IntArrayRef in, IntArrayRef out, const std::array<Scale, D>& scales, bool transposed,
                             Align... align) {
  std::vector<Resampling> steps;
  for (size_t d = 0; d < D; ++d) {
    Taps taps = Kind::taps(in[d + 2], out[d + 2], align..., scales[d]);
    steps.emplace_back(int64_t(d) + 2, std::move(taps), transposed);
  }
  return steps;
}

// An operator, defined by its taps and its checks. `Align` is bool if the operator has an align_corners argument.
template <typename Kind, typename Forward, typename Backward, typename Align, typename... Scales>
struct Upsample;
template <typename Kind, typename Forward, typename Backward, typename... Align, typename... Scales>
struct Upsample<Kind, Forward, Backward, std::tuple<Align...>, Scales...> {
  static constexpr size_t kDims = sizeof...(Scales);

  // Returns whether kernels support the dtype: floating-point types, and uint8 for 2-D or nearest modes.
  static bool has_kernel(const Tensor& t) {
    const bool bytes = is_plain(t) && t.scalar_type() == at::kByte && (kDims == 2 || sizeof...(Align) == 0);
    return bytes || has_resample_kernel(t);
  }

  static bool forward(const Tensor& self, IntArrayRef size, Align... align, Scales... scales, Tensor& out) {
    if (!has_kernel(self)) return false;
    Structured<Forward> outputs(out);
    outputs.meta(self, size, align..., scales...);
    const Tensor& result = outputs.result();
    resample(self, plan<Kind, kDims>(self.sizes(), result.sizes(), {scales...}, false, align...), result);
    return outputs.return_or_copy(out);
  }
  static bool backward(const Tensor& grad, IntArrayRef size, IntArrayRef input_size, Align... align, Scales... scales,
                       Tensor& grad_input) {
    if (!has_resample_kernel(grad)) return false;
    Structured<Backward> outputs(grad_input);
    outputs.meta(grad, size, input_size, align..., scales...);
    const Tensor& result = outputs.result();
    resample(grad, plan<Kind, kDims>(result.sizes(), grad.sizes(), {scales...}, true, align...), result);
    return outputs.return_or_copy(grad_input);
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  using Plain = std::tuple<>;
  using Aligned = std::tuple<bool>;
#define UPSAMPLE(OP, KIND, ...)                                                                               \
  {                                                                                                           \
    using Row = Upsample<KIND, at::meta::structured_##OP, at::meta::structured_##OP##_backward, __VA_ARGS__>; \
    op<#OP, &Row::forward>(m);                                                                                \
    op<#OP "_backward", &Row::backward>(m);                                                                   \
  }
  UPSAMPLE(upsample_nearest1d, Nearest, Plain, Scale)
  UPSAMPLE(upsample_nearest2d, Nearest, Plain, Scale, Scale)
  UPSAMPLE(upsample_nearest3d, Nearest, Plain, Scale, Scale, Scale)
  UPSAMPLE(_upsample_nearest_exact1d, NearestExact, Plain, Scale)
  UPSAMPLE(_upsample_nearest_exact2d, NearestExact, Plain, Scale, Scale)
  UPSAMPLE(_upsample_nearest_exact3d, NearestExact, Plain, Scale, Scale, Scale)
  UPSAMPLE(upsample_linear1d, Linear, Aligned, Scale)
  UPSAMPLE(upsample_bilinear2d, Linear, Aligned, Scale, Scale)
  UPSAMPLE(upsample_trilinear3d, Linear, Aligned, Scale, Scale, Scale)
  UPSAMPLE(upsample_bicubic2d, Cubic, Aligned, Scale, Scale)
  UPSAMPLE(_upsample_bilinear2d_aa, Smooth<Triangle>, Aligned, Scale, Scale)
  UPSAMPLE(_upsample_bicubic2d_aa, Smooth<Keys>, Aligned, Scale, Scale)
}

}  // namespace mpsx::ops
