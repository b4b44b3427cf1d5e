// max_pool2d with indices. The backward gathers: an input element adds up the windows whose maximum it was, in order.
#include "lib/instantiate.h"
#include "pool/maximum.h"
#include "pool/window.h"

// N neighbouring windows, S elements apart (0: `stride`), that lie inside but for rows; registers hold them.
template <int N, int S, typename T>
inline void windows_inside(device T* out, device long* indices, device const T* x, constant Pool2dParams& p, int y0,
                           int x0) {
  typedef compute_t<T> C;
  const int step = S ? S : p.stride_w, first = first_inside(y0, p.dilation_h) * p.in_w + x0;
  C best[N];
  int where[N];
  for (int j = 0; j < N; ++j) {
    best[j] = lowest_of(C(0));
    where[j] = first + j * step;
  }
  for (int ky = 0; ky < p.kernel_h; ++ky) {
    const int iy = y0 + ky * p.dilation_h;
    if (iy < 0 || iy >= p.in_h) continue;
    for (int kx = 0; kx < p.kernel_w; ++kx) {
      const int position = iy * p.in_w + x0 + kx * p.dilation_w;
      for (int j = 0; j < N; ++j) {
        const C v = C(x[position + j * step]);
        take(best[j], where[j], v, position + j * step);
      }
    }
  }
  for (int j = 0; j < N; ++j) out[j] = T(best[j]);
  for (int j = 0; j < N; ++j) indices[j] = where[j];
}

// `count` neighbouring windows, of which some may reach over an edge.
template <typename T>
inline void windows_at_edge(device T* out, device long* indices, device const T* x, constant Pool2dParams& p, int y0,
                            int x0, int count) {
  typedef compute_t<T> C;
  const int first_row = first_inside(y0, p.dilation_h) * p.in_w;
  C best[kTile];
  int where[kTile];
  for (int j = 0; j < count; ++j) {
    best[j] = lowest_of(C(0));
    where[j] = first_row + first_inside(x0 + j * p.stride_w, p.dilation_w);
  }
  for (int ky = 0; ky < p.kernel_h; ++ky) {
    const int iy = y0 + ky * p.dilation_h;
    if (iy < 0 || iy >= p.in_h) continue;
    for (int kx = 0; kx < p.kernel_w; ++kx) {
      const int tap = x0 + kx * p.dilation_w;  // of window 0; the windows [lo, hi) have this tap inside
      const int lo = tap >= 0 ? 0 : (-tap + p.stride_w - 1) / p.stride_w;
      const int hi = tap >= p.in_w ? 0 : min(count, (p.in_w - 1 - tap) / p.stride_w + 1);
      for (int j = lo; j < hi; ++j) {
        const int position = iy * p.in_w + tap + j * p.stride_w;
        const C v = C(x[position]);
        take(best[j], where[j], v, position);
      }
    }
  }
  for (int j = 0; j < count; ++j) out[j] = T(best[j]);
  for (int j = 0; j < count; ++j) indices[j] = where[j];
}

// One threadgroup per output row of a plane: group = (output y, plane).
template <typename T>
kernel void max_pool2d(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                       device const T* in [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                       uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                       uint3 threads [[threads_per_threadgroup]]) {
  device const T* x = in + ulong(group.y) * ulong(p.in_h) * ulong(p.in_w);
  const ulong row = (ulong(group.y) * ulong(p.out_h) + group.x) * ulong(p.out_w);
  device T* to = out + row;
  device long* at = indices + row;
  const int y0 = int(group.x) * p.stride_h - p.pad_h;
#if MPSX_VECTOR_BYTES
  for (int ox = int(tid); ox < p.out_w; ox += int(threads.x))
    windows_at_edge(to + ox, at + ox, x, p, y0, ox * p.stride_w - p.pad_w, 1);
#else
  // The windows [begin, end) lie inside.
  const int reach = (p.kernel_w - 1) * p.dilation_w;
  const int begin = min((p.pad_w + p.stride_w - 1) / p.stride_w, p.out_w);
  const int end = p.in_w + p.pad_w <= reach ? begin : clamp((p.in_w - 1 - reach + p.pad_w) / p.stride_w + 1, begin, p.out_w);
  for (int ox = 0; ox < p.out_w;) {
    // The last 16 are counted from the end: some are done twice.
    if (ox >= begin + 16 && ox < end && ox + 16 > end) ox = end - 16;
    const int x0 = ox * p.stride_w - p.pad_w;
    int count = 1;
    if (ox < begin) {
      count = min(kTile, begin - ox);
      windows_at_edge(to + ox, at + ox, x, p, y0, x0, count);
    } else if (ox + 16 <= end) {
      count = 16;
      if (p.stride_w == 1) windows_inside<16, 1>(to + ox, at + ox, x, p, y0, x0);
      else if (p.stride_w == 2) windows_inside<16, 2>(to + ox, at + ox, x, p, y0, x0);
      else windows_inside<16, 0>(to + ox, at + ox, x, p, y0, x0);
    } else if (ox + 4 <= end) {
      count = 4;
      if (p.stride_w == 2) windows_inside<4, 2>(to + ox, at + ox, x, p, y0, x0);
      else windows_inside<4, 0>(to + ox, at + ox, x, p, y0, x0);
    } else if (ox + 2 <= end) {
      count = 2;
      if (p.stride_w == 2) windows_inside<2, 2>(to + ox, at + ox, x, p, y0, x0);
      else windows_inside<2, 0>(to + ox, at + ox, x, p, y0, x0);
    } else if (ox < end) {
      windows_inside<1, 0>(to + ox, at + ox, x, p, y0, x0);
    } else {
      count = min(kTile, p.out_w - ox);
      windows_at_edge(to + ox, at + ox, x, p, y0, x0, count);
    }
    ox += count;
  }
#endif
}

// Maxima of one window in `count` neighbouring channels, or in N where that is not 0, which registers hold.
template <int N, typename T>
inline void window_last(device T* out, device long* indices, device const T* x, constant Pool2dParams& p, int y0, int x0,
                        int count) {
  typedef compute_t<T> C;
  const int first = first_inside(y0, p.dilation_h) * p.in_w + first_inside(x0, p.dilation_w), n = N ? N : count;
  C best[N ? N : kTile];
  int where[N ? N : kTile];
  for (int j = 0; j < n; ++j) {
    best[j] = lowest_of(C(0));
    where[j] = first;
  }
  for (int ky = 0; ky < p.kernel_h; ++ky) {
    const int iy = y0 + ky * p.dilation_h;
    if (iy < 0 || iy >= p.in_h) continue;
    for (int kx = 0; kx < p.kernel_w; ++kx) {
      const int ix = x0 + kx * p.dilation_w;
      if (ix < 0 || ix >= p.in_w) continue;
      const int position = iy * p.in_w + ix;
      device const T* tap = x + ulong(position) * ulong(p.channels);
      MPSX_VECTORIZE
      for (int j = 0; j < n; ++j) {
        const C v = C(tap[j]);
        take(best[j], where[j], v, position);
      }
    }
  }
  for (int j = 0; j < n; ++j) out[j] = T(best[j]);
  for (int j = 0; j < n; ++j) indices[j] = where[j];
}

// channels_last: one threadgroup per output pixel, group = (output x, output y, image).
template <typename T>
kernel void max_pool2d_last(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                            device const T* in [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                            uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                            uint3 threads [[threads_per_threadgroup]]) {
  device const T* x = in + ulong(group.z) * ulong(p.in_h) * ulong(p.in_w) * ulong(p.channels);
  const ulong pixel = ((ulong(group.z) * ulong(p.out_h) + group.y) * ulong(p.out_w) + group.x) * ulong(p.channels);
  const int y0 = int(group.y) * p.stride_h - p.pad_h, x0 = int(group.x) * p.stride_w - p.pad_w;
#if MPSX_VECTOR_BYTES
  for (int c = int(tid) * kTile; c < p.channels; c += int(threads.x) * kTile)
    window_last<0>(out + pixel + c, indices + pixel + c, x + c, p, y0, x0, min(kTile, p.channels - c));
#else
  int c = 0;
  for (; c + kTile <= p.channels; c += kTile)
    window_last<kTile>(out + pixel + c, indices + pixel + c, x + c, p, y0, x0, kTile);
  for (; c + 8 <= p.channels; c += 8) window_last<8>(out + pixel + c, indices + pixel + c, x + c, p, y0, x0, 8);
  if (c < p.channels) window_last<0>(out + pixel + c, indices + pixel + c, x + c, p, y0, x0, p.channels - c);
#endif
}

// The windows that may hold input i, in one dimension.
inline RegularWindow reach(int in, int out, int size, int stride, int pad, int dilation) {
  return RegularWindow(in, out, (size - 1) * dilation + 1, stride, pad);
}

// A thread owns neighbouring input elements: on a CPU a band of whole rows (or a long piece of one), else one element.
constant int kBand = MPSX_VECTOR_BYTES ? 1 : 2048;  // kBand in src/ops/pool/max_pool.cpp

// group = (band of input rows, plane); a band has more than one row only if its elements are at most kBand.
template <typename T>
kernel void max_pool2d_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                           device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                           uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                           uint3 threads [[threads_per_threadgroup]]) {
  typedef compute_t<T> C;
  const RegularWindow rows = reach(p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h);
  const RegularWindow columns = reach(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w);
  const int iy = int(group.x) * p.band, height = min(p.band, p.in_h - iy);
  const ulong plane = ulong(group.y) * ulong(p.out_h) * ulong(p.out_w);
  const int oy_first = rows.first(iy), oy_last = rows.last(iy + height - 1);
  const int width = height > 1 ? p.in_w : min(kBand, p.in_w);
  for (int ix = int(tid) * width; ix < p.in_w; ix += int(threads.x) * width) {
    const int columns_here = min(width, p.in_w - ix), count = columns_here * height;
    const long here = long(iy) * p.in_w + ix;
    device T* to = grad_in + (ulong(group.y) * ulong(p.in_h) * ulong(p.in_w) + ulong(here));
    C sum[kBand];
    for (int j = 0; j < count; ++j) sum[j] = C(0);
    const int ox_first = columns.first(ix), ox_last = columns.last(ix + columns_here - 1);
    for (int oy = oy_first; oy < oy_last; ++oy) {
      device const T* g = grad_out + (plane + ulong(oy) * ulong(p.out_w));
      device const long* at = indices + (plane + ulong(oy) * ulong(p.out_w));
      for (int ox = ox_first; ox < ox_last; ox += kTile) {
        const int n = min(kTile, ox_last - ox);
        C values[kTile];  // half and bfloat are converted side by side
        MPSX_VECTORIZE
        for (int k = 0; k < n; ++k) values[k] = C(g[ox + k]);
        for (int k = 0; k < n; ++k) {
          const long j = at[ox + k] - here;
          if (j >= 0 && j < count) sum[j] += sizeof(T) < sizeof(C) ? values[k] : C(g[ox + k]);
        }
      }
    }
    for (int j = 0; j < count; ++j) to[j] = T(sum[j]);
  }
}

// What one pixel's channels get of windows [oy_first, oy_last) x [ox_first, ox_last), whose gradients and places begin at
// g and at; N as in window_last.
template <int N, typename T>
inline void gather_last(device T* to, device const T* g, device const long* at, constant Pool2dParams& p, int oy_first,
                        int oy_last, int ox_first, int ox_last, long here, int count) {
  typedef compute_t<T> C;
  const int n = N ? N : count;
  C sum[N ? N : kTile];
  for (int j = 0; j < n; ++j) sum[j] = C(0);
  for (int oy = oy_first; oy < oy_last; ++oy) {
    for (int ox = ox_first; ox < ox_last; ++ox) {
      const long window = (long(oy) * p.out_w + ox) * p.channels;
      MPSX_VECTORIZE
      for (int j = 0; j < n; ++j) {
        const C v = C(g[window + j]);
        sum[j] += at[window + j] == here ? v : C(0);
      }
    }
  }
  for (int j = 0; j < n; ++j) to[j] = T(sum[j]);
}

// group = (piece of an input row: band pixels, input y, image).
template <typename T>
kernel void max_pool2d_bwd_last(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                                uint3 group [[threadgroup_position_in_grid]],
                                uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const RegularWindow rows = reach(p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h);
  const RegularWindow columns = reach(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w);
  const int x_first = int(group.x) * p.band, x_end = min(x_first + p.band, p.in_w), channels = p.channels;
  const ulong image = ulong(group.z) * ulong(p.out_h) * ulong(p.out_w) * ulong(channels);
  device T* to = grad_in + ((ulong(group.z) * ulong(p.in_h) + group.y) * ulong(p.in_w) + ulong(x_first)) * ulong(channels);
  device const T* g = grad_out + image;
  device const long* at = indices + image;
  const int y0 = rows.first(int(group.y)), y1 = rows.last(int(group.y));
  int x0 = columns.first(x_first), x1 = columns.last(x_first);
  for (int ix = x_first; ix < x_end; ++ix, to += channels) {
    while (x0 < x1 && columns.end(x0) <= ix) ++x0;
    while (x1 < p.out_w && columns.begin(x1) <= ix) ++x1;
    const long here = long(group.y) * p.in_w + ix;
#if MPSX_VECTOR_BYTES
    for (int c = int(tid) * kTile; c < channels; c += int(threads.x) * kTile)
      gather_last<0>(to + c, g + c, at + c, p, y0, y1, x0, x1, here, min(kTile, channels - c));
#else
    int c = 0;
    for (; c + kTile <= channels; c += kTile)
      gather_last<kTile>(to + c, g + c, at + c, p, y0, y1, x0, x1, here, kTile);
    for (; c + 8 <= channels; c += 8) gather_last<8>(to + c, g + c, at + c, p, y0, y1, x0, x1, here, 8);
    if (c < channels) gather_last<0>(to + c, g + c, at + c, p, y0, y1, x0, x1, here, channels - c);
#endif
  }
}

// The same where windows tile the input, or its rows and columns but the last (zeroed before): each writes its own.
template <int N, typename T>
inline void spread_last(device T* to, device const T* g, device const long* at, constant Pool2dParams& p, int y0, int x0,
                        int count) {
  const int n = N ? N : count;
  T value[N ? N : kTile];
  int where[N ? N : kTile];
  for (int j = 0; j < n; ++j) {
    value[j] = g[j];
    where[j] = int(at[j]);
  }
  for (int ky = 0; ky < p.kernel_h; ++ky) {
    for (int kx = 0; kx < p.kernel_w; ++kx) {
      const int position = (y0 + ky) * p.in_w + x0 + kx;
      device T* pixel = to + ulong(position) * ulong(p.channels);
      MPSX_VECTORIZE
      for (int j = 0; j < n; ++j) pixel[j] = where[j] == position ? value[j] : T(0);
    }
  }
}

// One threadgroup per window, group = (output x, output y, image).
template <typename T>
kernel void max_pool2d_bwd_last_tiled(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                      device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                                      uint3 group [[threadgroup_position_in_grid]],
                                      uint tid [[thread_index_in_threadgroup]],
                                      uint3 threads [[threads_per_threadgroup]]) {
  device T* to = grad_in + ulong(group.z) * ulong(p.in_h) * ulong(p.in_w) * ulong(p.channels);
  const ulong pixel = ((ulong(group.z) * ulong(p.out_h) + group.y) * ulong(p.out_w) + group.x) * ulong(p.channels);
  device const T* g = grad_out + pixel;
  device const long* at = indices + pixel;
  const int y0 = int(group.y) * p.kernel_h, x0 = int(group.x) * p.kernel_w;
#if MPSX_VECTOR_BYTES
  for (int c = int(tid) * kTile; c < p.channels; c += int(threads.x) * kTile)
    spread_last<0>(to + c, g + c, at + c, p, y0, x0, min(kTile, p.channels - c));
#else
  int c = 0;
  for (; c + kTile <= p.channels; c += kTile) spread_last<kTile>(to + c, g + c, at + c, p, y0, x0, kTile);
  for (; c + 8 <= p.channels; c += 8) spread_last<8>(to + c, g + c, at + c, p, y0, x0, 8);
  if (c < p.channels) spread_last<0>(to + c, g + c, at + c, p, y0, x0, p.channels - c);
#endif
}

// n windows to one row of their inputs, which begins at place `begin` of the plane; N: the windows' width, or 0 where it
// is p.kernel_w.
template <int N, typename T>
inline void spread_row(device T* to, device const T* g, device const long* at, constant Pool2dParams& p, int begin,
                       int n) {
  const int width = N ? N : p.kernel_w;
  MPSX_VECTORIZE
  for (int k = 0; k < n; ++k) {
    const T value = g[k];
    const int place = int(at[k]) - (begin + k * width);
    for (int kx = 0; kx < width; ++kx) to[k * width + kx] = place == kx ? value : T(0);
  }
}

// Windows beside each other: an input element has one. Threads: (piece of an output row, output y, plane).
template <typename T>
kernel void max_pool2d_bwd_tiled(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                 device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                                 uint3 gid [[thread_position_in_grid]]) {
  const int first = int(gid.x) * kTile, n = min(kTile, p.out_w - first);
  const ulong window = (ulong(gid.z) * ulong(p.out_h) + gid.y) * ulong(p.out_w) + ulong(first);
  device const T* g = grad_out + window;
  device const long* at = indices + window;
  device T* plane = grad_in + ulong(gid.z) * ulong(p.in_h) * ulong(p.in_w);
  for (int ky = 0; ky < p.kernel_h; ++ky) {
    const int begin = (int(gid.y) * p.kernel_h + ky) * p.in_w + first * p.kernel_w;
    device T* to = plane + begin;
    if (p.kernel_w == 2)
      spread_row<2>(to, g, at, p, begin, n);
    else if (p.kernel_w == 3)
      spread_row<3>(to, g, at, p, begin, n);
    else
      spread_row<0>(to, g, at, p, begin, n);
  }
}

#define MAX_POOL(T, TAG, ...)                                \
  MPSX_KERNEL("max_pool2d_" #TAG, max_pool2d<T>)             \
  MPSX_KERNEL("max_pool2d_last_" #TAG, max_pool2d_last<T>)   \
  MPSX_KERNEL("max_pool2d_bwd_" #TAG, max_pool2d_bwd<T>)     \
  MPSX_KERNEL("max_pool2d_bwd_tiled_" #TAG, max_pool2d_bwd_tiled<T>)              \
  MPSX_KERNEL("max_pool2d_bwd_last_" #TAG, max_pool2d_bwd_last<T>)                \
  MPSX_KERNEL("max_pool2d_bwd_last_tiled_" #TAG, max_pool2d_bwd_last_tiled<T>)
MPSX_FOR_REAL(MAX_POOL, )
