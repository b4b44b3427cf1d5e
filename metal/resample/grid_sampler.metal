// grid_sampler_2d and grid_sampler_3d with their gradients. Every pixel of the result is a sum of pixels of the input with
// weights that are a product of one a dimension; these are worked out once for all channels of a piece of the grid.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "resample/grid_params.h"

constexpr constant int kTile = MPSX_VECTOR_BYTES ? 1 : kGridTile;

// What pixels take along one dimension: `place` is an offset in the plane, negative outside of it.
struct GridAxis {
  int place[4][kTile];
  float weight[4][kTile];
  float slope[4][kTile];  // of the weight, by the grid
};

inline int taps_of(int mode) { return mode == kGridNearest ? 1 : (mode == kGridLinear ? 2 : 4); }

inline int place_of(float x, float size, int step) {
  const bool inside = x >= 0.0f && x < size;  // false for NaN
  const int place = int(inside ? x : 0.0f) * step;
  return inside ? place : -1;
}

// Reflection at the edges, or at the centres of the pixels there. `rate` changes its sign where x runs backwards.
inline void reflect(thread float* x, thread float* rate, int n, float size, bool align_corners) {
  const float low = align_corners ? 0.0f : -0.5f, span = align_corners ? size - 1.0f : size;
  for (int j = 0; j < n; ++j) {
    const float from_low = x[j] - low, distance = fabs(from_low);
    const float flips = span > 0.0f ? floor(distance / span) : 0.0f;
    const float rest = span > 0.0f ? distance - span * flips : 0.0f;
    const bool odd = flips - 2.0f * floor(flips * 0.5f) != 0.0f;
    x[j] = (odd ? span - rest : rest) + low;
    rate[j] = odd != (from_low < 0.0f) ? -rate[j] : rate[j];
  }
}
inline void clip(thread float* x, thread float* rate, int n, float size) {
  for (int j = 0; j < n; ++j) {
    const bool below = !(x[j] > 0.0f), above = x[j] >= size - 1.0f;  // NaN is below
    rate[j] = below || above ? 0.0f : rate[j];
    x[j] = below ? 0.0f : (above ? size - 1.0f : x[j]);
  }
}
inline void pad(thread float* x, thread float* rate, int n, float size, constant GridSamplerParams& p) {
  if (p.padding == kGridReflection) reflect(x, rate, n, size, p.align_corners != 0);
  if (p.padding != kGridZeros) clip(x, rate, n, size);
}

// The convolution kernel of R. Keys, "Cubic convolution interpolation for digital image processing", with a = -3/4.
constexpr constant float kA = -0.75f;
inline float cubic_near(float s) { return fma(fma(kA + 2.0f, s, -(kA + 3.0f)) * s, s, 1.0f); }
inline float cubic_far(float s) { return fma(fma(fma(kA, s, -5.0f * kA), s, 8.0f * kA), s, -4.0f * kA); }
inline float slope_near(float s) { return fma(3.0f * (kA + 2.0f), s, -2.0f * (kA + 3.0f)) * s; }
inline float slope_far(float s) { return fma(fma(3.0f * kA, s, -10.0f * kA), s, 8.0f * kA); }

// Coordinate `at` of `n` pixels, of a grid with D coordinates a pixel.
template <int D, typename T>
inline void take_axis(thread GridAxis& axis, device const T* at, int n, int dim, int step,
                      constant GridSamplerParams& p) {
  const float size = float(p.size[dim]);
  float x[kTile], rate[kTile];
  for (int j = 0; j < n; ++j) {
    const float moved = float(at[j * D]) + 1.0f;
    x[j] = p.align_corners ? moved * 0.5f * (size - 1.0f) : (moved * size - 1.0f) * 0.5f;
    rate[j] = (p.align_corners ? size - 1.0f : size) * 0.5f;
  }
  if (p.mode == kGridCubic) {
    float base[kTile];
    for (int j = 0; j < n; ++j) {
      base[j] = floor(x[j]);
      const float t = x[j] - base[j], u = 1.0f - t;
      axis.weight[0][j] = cubic_far(1.0f + t);
      axis.weight[1][j] = cubic_near(t);
      axis.weight[2][j] = cubic_near(u);
      axis.weight[3][j] = cubic_far(1.0f + u);
      axis.slope[0][j] = slope_far(1.0f + t) * rate[j];
      axis.slope[1][j] = slope_near(t) * rate[j];
      axis.slope[2][j] = -slope_near(u) * rate[j];
      axis.slope[3][j] = -slope_far(1.0f + u) * rate[j];
    }
    for (int k = 0; k < 4; ++k) {  // each of the four is padded on its own
      for (int j = 0; j < n; ++j) x[j] = base[j] + float(k - 1);
      pad(x, rate, n, size, p);
      for (int j = 0; j < n; ++j) axis.place[k][j] = place_of(x[j], size, step);
    }
    return;
  }
  pad(x, rate, n, size, p);
  if (p.mode == kGridNearest) {
    for (int j = 0; j < n; ++j) {
      axis.place[0][j] = place_of(rint(x[j]), size, step);
      axis.weight[0][j] = 1.0f;
      axis.slope[0][j] = 0.0f;
    }
    return;
  }
  for (int j = 0; j < n; ++j) {
    const float base = floor(x[j]), t = x[j] - base;
    axis.place[0][j] = place_of(base, size, step);
    axis.place[1][j] = place_of(base + 1.0f, size, step);
    axis.weight[0][j] = 1.0f - t;
    axis.weight[1][j] = t;
    axis.slope[0][j] = -rate[j];
    axis.slope[1][j] = rate[j];
  }
}

// All taps of pixels, D of 2 and 3: at most 4 x 4 or 2 x 2 x 2.
template <int D>
struct GridTaps {
  GridAxis axis[D];
  int each, count;  // taps a dimension, and in all
  int place[16][kTile];
  float weight[16][kTile];
  int live[16], lives;  // the taps of which not all lie outside

  template <typename T>
  GridTaps(device const T* grid, int n, constant GridSamplerParams& p) : each(taps_of(p.mode)), count(1), lives(0) {
    int step = 1;
    for (int d = 0; d < D; ++d) {
      take_axis<D, T>(axis[d], grid + d, n, d, step, p);
      step *= p.size[d];
      count *= each;
    }
    for (int t = 0; t < count; ++t) {
      const int k0 = digit(t, 0), k1 = digit(t, 1);
      for (int j = 0; j < n; ++j) {
        const int a = axis[0].place[k0][j], b = axis[1].place[k1][j];
        place[t][j] = (a | b) < 0 ? -1 : a + b;
        weight[t][j] = axis[0].weight[k0][j] * axis[1].weight[k1][j];
      }
      if (D == 2) continue;
      thread const GridAxis& deep = axis[D - 1];
      const int k2 = digit(t, 2);
      for (int j = 0; j < n; ++j) {
        const int a = place[t][j], b = deep.place[k2][j];
        place[t][j] = (a | b) < 0 ? -1 : a + b;
        weight[t][j] *= deep.weight[k2][j];
      }
    }
    for (int t = 0; t < count; ++t) {
      int outside = -1;
      MPSX_REDUCE(& : outside)
      for (int j = 0; j < n; ++j) outside &= place[t][j];
      if (outside >= 0) live[lives++] = t;
    }
  }
  // Which of a dimension's taps is part of tap t.
  int digit(int t, int d) const { return (d == 0 ? t : (d == 1 ? t / each : t / (each * each))) % each; }
};

template <typename T>
inline float value_at(device const T* x, int place) {
  const float value = float(x[place < 0 ? 0 : place]);
  return place < 0 ? 0.0f : value;
}

template <typename T>
inline float part_of(device const T* x, int place, float weight) {
  const float part = float(x[place < 0 ? 0 : place]) * weight;
  return place < 0 ? 0.0f : part;  // nothing, even if the weight is NaN
}

// The thread's piece of the grid, and how long it is.
#define GRID_PIECE                                                                 \
  const uint first = gid.x * uint(kTile);                                          \
  const int n = int(min(uint(kTile), p.pixels - first));

// Asks for a small plane before it is read here and there, which no prefetcher of a CPU foresees.
#if !MPSX_VECTOR_BYTES
template <typename T>
inline void fetch_plane(device const T* x, ulong count) {
  const ulong line = 64 / sizeof(T), last = min(count, 64 * line);
  for (ulong i = 0; i < last; i += line) __builtin_prefetch((const void*)(x + i));
}
#endif

template <typename T, int D>
kernel void grid_sampler(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                         device const T* grid [[buffer(2)]], constant GridSamplerParams& p [[buffer(3)]],
                         uint3 gid [[thread_position_in_grid]]) {
  GRID_PIECE
  const GridTaps<D> taps(grid + (ulong(gid.z) * p.pixels + first) * D, n, p);
  for (uint c = 0; c < p.channels; ++c) {
    const ulong plane = ulong(gid.z) * p.channels + c;
    device const T* x = in + plane * p.plane;
    device T* to = out + plane * p.pixels + first;
#if !MPSX_VECTOR_BYTES
    if (first == 0 && c + 1 < p.channels) fetch_plane(x + p.plane, p.plane);
#endif
    if (taps.count == 1 && taps.lives > 0) {  // the nearest pixel
      MPSX_VECTORIZE
      for (int j = 0; j < n; ++j) {
        const int place = taps.place[0][j];
        const T value = x[place < 0 ? 0 : place];
        to[j] = place < 0 ? T(0.0f) : value;
      }
      continue;
    }
    if (taps.count == 4 && taps.lives > 0) {  // bilinear: sums that stay in registers
      MPSX_VECTORIZE
      for (int j = 0; j < n; ++j) {
        const float a = part_of(x, taps.place[0][j], taps.weight[0][j]);
        const float b = part_of(x, taps.place[1][j], taps.weight[1][j]);
        const float last = part_of(x, taps.place[2][j], taps.weight[2][j]);
        const float d = part_of(x, taps.place[3][j], taps.weight[3][j]);
        to[j] = T((a + b) + (last + d));
      }
      continue;
    }
    float sum[kTile];
    for (int j = 0; j < n; ++j) sum[j] = 0.0f;
    for (int i = 0; i < taps.lives; ++i) {
      const int t = taps.live[i];
      MPSX_VECTORIZE
      for (int j = 0; j < n; ++j) sum[j] += part_of(x, taps.place[t][j], taps.weight[t][j]);
    }
    for (int j = 0; j < n; ++j) to[j] = T(sum[j]);
  }
}

// The gradient of the input, zero before: a thread adds up all pixels for some planes, in order. gid = (block, image).
template <typename T, int D>
kernel void grid_sampler_bwd_input(device float* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                   device const T* grid [[buffer(2)]], constant GridSamplerParams& p [[buffer(3)]],
                                   uint3 gid [[thread_position_in_grid]]) {
  const uint begin = gid.x * p.block, end = min(begin + p.block, p.channels);
  for (uint first = 0; first < p.pixels; first += uint(kTile)) {
    const int n = int(min(uint(kTile), p.pixels - first));
    const GridTaps<D> taps(grid + (ulong(gid.y) * p.pixels + first) * D, n, p);
    for (uint c = begin; c < end; ++c) {
      const ulong plane = ulong(gid.y) * p.channels + c;
      device float* to = grad_in + plane * p.plane;
      device const T* g = grad_out + plane * p.pixels + first;
      for (int i = 0; i < taps.lives; ++i)
        for (int t = taps.live[i], j = 0; j < n; ++j)
          if (taps.place[t][j] >= 0) to[taps.place[t][j]] += taps.weight[t][j] * float(g[j]);
    }
  }
}

// The gradient of the grid.
template <typename T, int D>
kernel void grid_sampler_bwd_grid(device T* grad_grid [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                  device const T* in [[buffer(2)]], device const T* grid [[buffer(3)]],
                                  constant GridSamplerParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  GRID_PIECE
  const ulong pixel = ulong(gid.z) * p.pixels + first;
  const GridTaps<D> taps(grid + pixel * D, n, p);
  float dot[16][kTile];  // of the gradient and what a tap takes, over the channels
  for (int t = 0; t < taps.count; ++t)
    for (int j = 0; j < n; ++j) dot[t][j] = 0.0f;
  for (uint c = 0; c < p.channels; ++c) {
    const ulong plane = ulong(gid.z) * p.channels + c;
    device const T* x = in + plane * p.plane;
    device const T* g = grad_out + plane * p.pixels + first;
    for (int i = 0; i < taps.lives; ++i) {
      const int t = taps.live[i];
      MPSX_VECTORIZE
      for (int j = 0; j < n; ++j) dot[t][j] += value_at(x, taps.place[t][j]) * float(g[j]);
    }
  }
  for (int d = 0; d < D; ++d) {
    float sum[kTile];
    for (int j = 0; j < n; ++j) sum[j] = 0.0f;
    for (int t = 0; t < taps.count; ++t) {
      const int k = taps.digit(t, d), k1 = taps.digit(t, (d + 1) % D), k2 = taps.digit(t, (d + 2) % D);
      for (int j = 0; j < n; ++j) {
        const float others = taps.axis[(d + 1) % D].weight[k1][j] * (D == 2 ? 1.0f : taps.axis[(d + 2) % D].weight[k2][j]);
        const float part = taps.axis[d].slope[k][j] * others * dot[t][j];
        sum[j] += taps.place[t][j] < 0 ? 0.0f : part;
      }
    }
    for (int j = 0; j < n; ++j) grad_grid[(pixel + ulong(j)) * D + ulong(d)] = T(sum[j]);
  }
}

#define GRID_SAMPLER(T, TAG, D)                                                             \
  MPSX_KERNEL("grid_sampler_" #D "d_" #TAG, grid_sampler<T, D>)                             \
  MPSX_KERNEL("grid_sampler_" #D "d_bwd_input_" #TAG, grid_sampler_bwd_input<T, D>)         \
  MPSX_KERNEL("grid_sampler_" #D "d_bwd_grid_" #TAG, grid_sampler_bwd_grid<T, D>)
MPSX_FOR_FLOAT(GRID_SAMPLER, 2)
MPSX_FOR_FLOAT(GRID_SAMPLER, 3)
