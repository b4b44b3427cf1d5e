// grid_sampler_2d and grid_sampler_3d, and their gradients. An output pixel is a weighted sum of input pixels. The
// weights are separable, so a thread computes them per dimension and reuses them for all channels.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "resample/grid_params.h"

// The taps of an output pixel along one dimension. `offset` is the element's offset in the plane. It is negative if the
// tap is out of range.
template <int TAPS>
struct GridAxis {
  int offset[TAPS];
  float weight[TAPS];
  float slope[TAPS];  // derivative of the weight with respect to the grid coordinate
};

inline int offset_of(float x, float size, int step) {
  const bool inside = x >= 0.0f && x < size;  // false for NaN
  const int offset = int(inside ? x : 0.0f) * step;
  return inside ? offset : -1;
}

// A coordinate and its derivative with respect to the grid coordinate.
struct GridCoordinate {
  float x, rate;
};

// Reflects a coordinate at the edges of the image or, if align_corners, at the centers of the edge pixels. Where the
// reflected coordinate decreases, `rate` changes its sign.
inline GridCoordinate reflect(GridCoordinate c, float size, bool align_corners) {
  const float low = align_corners ? 0.0f : -0.5f, period = 2.0f * (align_corners ? size - 1.0f : size);
  const float from_low = c.x - low, distance = fabs(from_low);
  const float forth = period > 0.0f ? distance - period * floor(distance / period) : 0.0f, back = period - forth;
  const bool flipped = forth > back;
  return {(flipped ? back : forth) + low, flipped != (from_low < 0.0f) ? -c.rate : c.rate};
}

// Which pixel a NaN coordinate selects with border or reflection padding. PyTorch's 2-D CPU kernels select the first
// pixel. Its 3-D kernels select the last pixel in the forward pass and no pixel in the backward pass.
enum : int { kNanFirst, kNanLast, kNanNone };

template <int NAN_RULE>
inline GridCoordinate clip(GridCoordinate c, float size) {
  const bool below = NAN_RULE == kNanFirst ? !(c.x > 0.0f) : c.x <= 0.0f;
  const bool above = NAN_RULE == kNanLast ? !(c.x < size - 1.0f) : c.x >= size - 1.0f;
  return {below ? 0.0f : (above ? size - 1.0f : c.x), below || above ? 0.0f : c.rate};
}
template <int NAN_RULE>
inline GridCoordinate pad(GridCoordinate c, float size, constant GridSamplerParams& p) {
  if (p.padding == kGridReflection) c = reflect(c, size, p.align_corners != 0);
  return p.padding == kGridZeros ? c : clip<NAN_RULE>(c, size);
}

// The cubic convolution kernel from R. Keys, "Cubic convolution interpolation for digital image processing", with a =
// -3/4.
constexpr constant float kA = -0.75f;
inline float cubic_near(float s) { return fma(fma(kA + 2.0f, s, -(kA + 3.0f)) * s, s, 1.0f); }
inline float cubic_far(float s) { return fma(fma(fma(kA, s, -5.0f * kA), s, 8.0f * kA), s, -4.0f * kA); }
inline float slope_near(float s) { return fma(3.0f * (kA + 2.0f), s, -2.0f * (kA + 3.0f)) * s; }
inline float slope_far(float s) { return fma(fma(3.0f * kA, s, -10.0f * kA), s, 8.0f * kA); }

template <int NAN_RULE>
inline void set_taps(thread GridAxis<1>& axis, GridCoordinate c, float size, int step, constant GridSamplerParams& p) {
  axis.offset[0] = offset_of(rint(pad<NAN_RULE>(c, size, p).x), size, step);
  axis.weight[0] = 1.0f;
  axis.slope[0] = 0.0f;
}
template <int NAN_RULE>
inline void set_taps(thread GridAxis<2>& axis, GridCoordinate c, float size, int step, constant GridSamplerParams& p) {
  c = pad<NAN_RULE>(c, size, p);
  const float base = floor(c.x), t = c.x - base;
  axis.offset[0] = offset_of(base, size, step);
  axis.offset[1] = offset_of(base + 1.0f, size, step);
  axis.weight[0] = 1.0f - t;
  axis.weight[1] = t;
  axis.slope[0] = -c.rate;
  axis.slope[1] = c.rate;
}
template <int NAN_RULE>
inline void set_taps(thread GridAxis<4>& axis, GridCoordinate c, float size, int step, constant GridSamplerParams& p) {
  const float base = floor(c.x), t = c.x - base, u = 1.0f - t, rate = c.rate;
  axis.weight[0] = cubic_far(1.0f + t);
  axis.weight[1] = cubic_near(t);
  axis.weight[2] = cubic_near(u);
  axis.weight[3] = cubic_far(1.0f + u);
  axis.slope[0] = slope_far(1.0f + t) * rate;
  axis.slope[1] = slope_near(t) * rate;
  axis.slope[2] = -slope_near(u) * rate;
  axis.slope[3] = -slope_far(1.0f + u) * rate;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    axis.offset[k] = offset_of(pad<NAN_RULE>({base + float(k - 1), rate}, size, p).x, size, step);
  }
}

// All taps of an output pixel in D = 2 or 3 dimensions, with TAPS taps per dimension. Loops over taps are unrolled so
// that the taps stay in registers.
template <int D, int TAPS, int NAN_RULE>
struct GridTaps {
  enum : int { count = TAPS * TAPS * (D == 3 ? TAPS : 1) };
  GridAxis<TAPS> axis[D];
  int offset[count];
  float weight[count];

  template <typename T>
  GridTaps(device const T* grid, constant GridSamplerParams& p) {
    int step = 1;
#pragma unroll
    for (int d = 0; d < D; ++d) {
      const float size = float(p.size[d]), moved = float(grid[d]) + 1.0f;
      const GridCoordinate c = {p.align_corners ? moved * 0.5f * (size - 1.0f) : (moved * size - 1.0f) * 0.5f,
                                (p.align_corners ? size - 1.0f : size) * 0.5f};
      set_taps<NAN_RULE>(axis[d], c, size, step, p);
      step *= p.size[d];
    }
#pragma unroll
    for (int t = 0; t < count; ++t) {
      offset[t] = 0;
      weight[t] = 1.0f;
#pragma unroll
      for (int d = 0; d < D; ++d) {
        const int k = digit(t, d), here = axis[d].offset[k];
        offset[t] = (offset[t] | here) < 0 ? -1 : offset[t] + here;
        weight[t] *= axis[d].weight[k];
      }
    }
  }
  // Returns the input pixel at tap t, multiplied by `factor`. If the tap is outside the image, PyTorch's 2-D CPU
  // kernels multiply 0 by the factor, which may be NaN. Its 3-D kernels skip the tap.
  template <typename T>
  float term(device const T* x, int t, float factor) const {
    const bool inside = offset[t] >= 0;
    const float value = inside ? float(x[offset[t]]) : 0.0f;
    return D == 2 || inside ? value * factor : 0.0f;
  }
  // Returns the index of tap t along dimension d.
  static int digit(int t, int d) { return (d == 0 ? t : (d == 1 ? t / TAPS : t / (TAPS * TAPS))) % TAPS; }
};

// gid = (pixel, unused, image).
template <typename T, int D, int TAPS>
kernel void grid_sampler(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                         device const T* grid [[buffer(2)]], constant GridSamplerParams& p [[buffer(3)]],
                         uint3 gid [[thread_position_in_grid]]) {
  const GridTaps<D, TAPS, D == 2 ? kNanFirst : kNanLast> taps(grid + (ulong(gid.z) * p.pixels + gid.x) * D, p);
  for (uint c = 0; c < p.channels; ++c) {
    const ulong plane = ulong(gid.z) * p.channels + c;
    device const T* x = in + plane * p.plane;
    if (TAPS == 1) {  // nearest mode copies the pixel unchanged
      out[plane * p.pixels + gid.x] = taps.offset[0] < 0 ? T(0) : x[taps.offset[0]];
      continue;
    }
    float sum = 0.0f;
#pragma unroll
    for (int t = 0; t < taps.count; ++t) sum += taps.term(x, t, taps.weight[t]);
    out[plane * p.pixels + gid.x] = T(sum);
  }
}

// Adds to the input gradient, which the launcher has zeroed. Each thread sums over all pixels of a few planes, in
// order. gid = (block of channels, image).
template <typename T, int D, int TAPS>
kernel void grid_sampler_bwd_input(device float* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                   device const T* grid [[buffer(2)]], constant GridSamplerParams& p [[buffer(3)]],
                                   uint2 gid [[thread_position_in_grid]]) {
  const uint begin = gid.x * kGridChannels, end = min(begin + kGridChannels, p.channels);
  for (uint pixel = 0; pixel < p.pixels; ++pixel) {
    const GridTaps<D, TAPS, D == 2 ? kNanFirst : kNanNone> taps(grid + (ulong(gid.y) * p.pixels + pixel) * D, p);
    for (uint c = begin; c < end; ++c) {
      const ulong plane = ulong(gid.y) * p.channels + c;
      device float* to = grad_in + plane * p.plane;
      const float g = float(grad_out[plane * p.pixels + pixel]);
#pragma unroll
      for (int t = 0; t < taps.count; ++t)
        if (taps.offset[t] >= 0) to[taps.offset[t]] += taps.weight[t] * g;
    }
  }
}

// Computes the gradient of the grid. gid = (pixel, unused, image).
template <typename T, int D, int TAPS>
kernel void grid_sampler_bwd_grid(device T* grad_grid [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                  device const T* in [[buffer(2)]], device const T* grid [[buffer(3)]],
                                  constant GridSamplerParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  const ulong pixel = ulong(gid.z) * p.pixels + gid.x;
  const GridTaps<D, TAPS, D == 2 ? kNanFirst : kNanNone> taps(grid + pixel * D, p);
  float dot[taps.count];  // for each tap: sum over channels of output gradient * input pixel
#pragma unroll
  for (int t = 0; t < taps.count; ++t) dot[t] = 0.0f;
  for (uint c = 0; c < p.channels; ++c) {
    const ulong plane = ulong(gid.z) * p.channels + c;
    device const T* x = in + plane * p.plane;
    const float g = float(grad_out[plane * p.pixels + gid.x]);
#pragma unroll
    for (int t = 0; t < taps.count; ++t) dot[t] += taps.term(x, t, g);
  }
#pragma unroll
  for (int d = 0; d < D; ++d) {
    float sum = 0.0f;
#pragma unroll
    for (int t = 0; t < taps.count; ++t) {
      if (D == 3 && taps.offset[t] < 0) continue;
      float others = 1.0f;
#pragma unroll
      for (int e = 1; e < D; ++e) others *= taps.axis[(d + e) % D].weight[taps.digit(t, (d + e) % D)];
      sum += taps.axis[d].slope[taps.digit(t, d)] * others * dot[t];
    }
    grad_grid[pixel * D + ulong(d)] = T(sum);
  }
}

// In nearest mode, the gradient of the grid is zero and needs no kernel.
#define GRID_SAMPLER(T, TAG, D, MODE, TAPS)                                                                \
  MPSX_KERNEL("grid_sampler_" #D "d_" #MODE "_" #TAG, grid_sampler<T, D, TAPS>)                            \
  MPSX_KERNEL("grid_sampler_" #D "d_" #MODE "_bwd_input_" #TAG, grid_sampler_bwd_input<T, D, TAPS>)
#define GRID_SAMPLER_SMOOTH(T, TAG, D, MODE, TAPS)                                                         \
  GRID_SAMPLER(T, TAG, D, MODE, TAPS)                                                                      \
  MPSX_KERNEL("grid_sampler_" #D "d_" #MODE "_bwd_grid_" #TAG, grid_sampler_bwd_grid<T, D, TAPS>)
MPSX_FOR_FLOAT(GRID_SAMPLER, 2, nearest, 1)
MPSX_FOR_FLOAT(GRID_SAMPLER, 3, nearest, 1)
MPSX_FOR_FLOAT(GRID_SAMPLER_SMOOTH, 2, bilinear, 2)
MPSX_FOR_FLOAT(GRID_SAMPLER_SMOOTH, 3, bilinear, 2)
MPSX_FOR_FLOAT(GRID_SAMPLER_SMOOTH, 2, bicubic, 4)
