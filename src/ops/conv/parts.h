// Expresses a forward or transposed convolution as parts that conv_gemm_tensor.metal can compute.
#pragma once

#include <numeric>
#include <vector>

#include "ops/conv/pixel_grid.h"

namespace mpsx::ops {

// Inserts spatial dimensions of size 1 after [images, channels] until there are three.
inline Tensor with_three_dims(const Tensor& t) {
  if (t.dim() == 5) return t;
  at::DimVector sizes(t.sizes()), strides(t.strides());
  const int64_t stride = t.size(2) * t.stride(2);
  sizes.insert(sizes.begin() + 2, size_t(5 - t.dim()), 1);
  strides.insert(strides.begin() + 2, size_t(5 - t.dim()), stride);
  return strided_view(t, sizes, strides);
}

// A convolution that writes one strided part of the output. Along each dimension, the axis' taps are the weight's taps
// `first`, `first` + step, and so on.
struct ConvPart {
  ConvAxes axes;
  Tensor out;
  int64_t first[3], step[3];
};

inline ConvAxis forward_axis(const ConvWindow& w, int d) {
  ConvAxis axis{w.source[d], w.padding[d], w.positions[d], w.stride[d], {}};
  for (int64_t tap = 0; tap < w.taps[d]; ++tap) axis.taps.push_back(tap * w.dilation[d]);
  return axis;
}
inline ConvAxes forward_axes(const ConvWindow& w) {
  return {forward_axis(w, 0), forward_axis(w, 1), forward_axis(w, 2)};
}

// One dimension of the part of a transposed convolution that computes outputs `phase`, `phase` + stride, and so on. It
// uses the taps `first`, `first` - step, and so on.
struct ConvPhase {
  ConvAxis axis;
  int64_t phase, first, step;
};
inline std::vector<ConvPhase> backward_phases(const ConvWindow& w, int d) {
  const int64_t stride = w.stride[d], dilation = w.dilation[d];
  std::vector<ConvPhase> phases;
  int64_t lowest = 0;
  for (int64_t phase = 0; phase < std::min<int64_t>(stride, w.positions[d]); ++phase) {
    ConvPhase p{{w.source[d], 0, int64_t(ceil_div(w.positions[d] - phase, stride)), 1, {}}, phase, -1, 1};
    p.step = stride / std::gcd(stride, dilation);
    for (int64_t tap = int64_t(w.taps[d]) - 1; tap >= 0; --tap) {
      const int64_t distance = phase + w.padding[d] - tap * dilation;
      if (distance % stride != 0) continue;
      if (p.first < 0) p.first = tap;
      p.axis.taps.push_back(distance / stride);
      lowest = std::min(lowest, distance / stride);
    }
    phases.push_back(std::move(p));
  }
  for (ConvPhase& p : phases) {
    p.axis.padding = -lowest;
    for (int64_t& tap : p.axis.taps) tap -= lowest;
  }
  return phases;
}

// Splits a transposed convolution into convolutions of stride 1, one for each value of the outputs' indices modulo the
// stride. Sets `complete` to false if some outputs read no input.
inline std::vector<ConvPart> backward_parts(const Tensor& out, const ConvWindow& w, bool& complete) {
  const std::vector<ConvPhase> z = backward_phases(w, 0), y = backward_phases(w, 1), x = backward_phases(w, 2);
  std::vector<ConvPart> parts;
  for (const ConvPhase& a : z)
    for (const ConvPhase& b : y)
      for (const ConvPhase& c : x) {
        if (a.axis.taps.empty() || b.axis.taps.empty() || c.axis.taps.empty()) {
          complete = false;
          continue;
        }
        ConvPart part{{a.axis, b.axis, c.axis}, out, {a.first, b.first, c.first}, {-a.step, -b.step, -c.step}};
        const int64_t phases[] = {a.phase, b.phase, c.phase};
        for (int d = 0; d < 3; ++d)
          if (w.stride[d] > 1) part.out = part.out.slice(d + 2, phases[d], std::nullopt, w.stride[d]);
        parts.push_back(std::move(part));
      }
  return parts;
}

// Returns the parts of a convolution, or of a transposed one if `backward` is true. Sets `complete` to whether all
// outputs read some input.
inline std::vector<ConvPart> conv_parts(const Tensor& out, const ConvWindow& w, bool backward, bool& complete) {
  complete = true;
  if (backward) return backward_parts(out, w, complete);
  return {{forward_axes(w), out, {0, 0, 0}, {1, 1, 1}}};
}

// Stores the bias, or zeros if it is undefined, in all outputs of a convolution whose parts are not complete.
inline void fill_with_bias(const Tensor& out, const Tensor& bias) {
  if (bias.defined())
    out.copy_(bias.view({1, -1, 1, 1, 1}).expand_as(out));
  else
    out.zero_();
}

}  // namespace mpsx::ops
