// max_pool2d with indices. The backward gathers: an input element adds up the windows whose maximum it was, in order.
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "pool/window.h"

inline float lowest_of(float) { return -INFINITY; }
template <typename T>
inline T lowest_of(T) {
  return T(-1) < T(0) ? T(1ul << (8 * sizeof(T) - 1)) : T(0);
}

// One tap of `n` neighbouring windows, S elements apart (0: `stride`). NaN wins, the last of several too.
template <int S, typename T, typename C>
inline void take_taps(thread C* best, thread int* where, device const T* x, int position, int n, int stride) {
  const int step = S ? S : stride;
  MPSX_VECTORIZE
  for (int j = 0; j < n; ++j) {
    const C v = C(x[long(j) * step]);
    const bool taken = v > best[j] || is_nan(v);
    best[j] = taken ? v : best[j];
    where[j] = taken ? position + j * step : where[j];
  }
}

// One threadgroup per output row of a plane: group = (output y, plane).
template <typename T>
kernel void max_pool2d(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                       device const T* in [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                       uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                       uint3 threads [[threads_per_threadgroup]]) {
  typedef compute_t<T> C;
  device const T* x = in + ulong(group.y) * ulong(p.in_h) * ulong(p.in_w);
  const ulong row = (ulong(group.y) * ulong(p.out_h) + group.x) * ulong(p.out_w);
  const int y0 = int(group.x) * p.stride_h - p.pad_h;
  const int first_row = first_inside(y0, p.dilation_h) * p.in_w;
  for (int ox = int(tid) * kTile; ox < p.out_w; ox += int(threads.x) * kTile) {
    const int count = min(kTile, p.out_w - ox);
    const int x0 = ox * p.stride_w - p.pad_w;
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
        const int position = iy * p.in_w + tap + lo * p.stride_w;
        if (lo >= hi) continue;
        if (p.stride_w == 1) {
          take_taps<1, T, C>(best + lo, where + lo, x + position, position, hi - lo, 1);
        } else if (p.stride_w == 2) {
          take_taps<2, T, C>(best + lo, where + lo, x + position, position, hi - lo, 2);
        } else {
          take_taps<0, T, C>(best + lo, where + lo, x + position, position, hi - lo, p.stride_w);
        }
      }
    }
    for (int j = 0; j < count; ++j) out[row + ulong(ox + j)] = T(best[j]);
    for (int j = 0; j < count; ++j) indices[row + ulong(ox + j)] = where[j];
  }
}

// channels_last: one threadgroup per output pixel, group = (output x, output y, image).
template <typename T>
kernel void max_pool2d_last(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                            device const T* in [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                            uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                            uint3 threads [[threads_per_threadgroup]]) {
  typedef compute_t<T> C;
  device const T* x = in + ulong(group.z) * ulong(p.in_h) * ulong(p.in_w) * ulong(p.channels);
  const ulong pixel = ((ulong(group.z) * ulong(p.out_h) + group.y) * ulong(p.out_w) + group.x) * ulong(p.channels);
  const int y0 = int(group.y) * p.stride_h - p.pad_h, x0 = int(group.x) * p.stride_w - p.pad_w;
  const int first = first_inside(y0, p.dilation_h) * p.in_w + first_inside(x0, p.dilation_w);
  for (int c = int(tid) * kTile; c < p.channels; c += int(threads.x) * kTile) {
    const int count = min(kTile, p.channels - c);
    C best[kTile];
    int where[kTile];
    for (int j = 0; j < count; ++j) {
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
        device const T* tap = x + ulong(position) * ulong(p.channels) + c;
        MPSX_VECTORIZE
        for (int j = 0; j < count; ++j) {
          const C v = C(tap[j]);
          const bool taken = v > best[j] || is_nan(v);
          best[j] = taken ? v : best[j];
          where[j] = taken ? position : where[j];
        }
      }
    }
    for (int j = 0; j < count; ++j) out[pixel + ulong(c + j)] = T(best[j]);
    for (int j = 0; j < count; ++j) indices[pixel + ulong(c + j)] = where[j];
  }
}

// The windows that may hold input i, in one dimension.
inline RegularWindow reach(int in, int out, int size, int stride, int pad, int dilation) {
  return RegularWindow(in, out, (size - 1) * dilation + 1, stride, pad);
}

// A thread owns neighbouring input elements: on a CPU a band of whole rows (or a long piece of one), else one element.
constant int kBand = MPSX_VECTOR_BYTES ? 1 : 2048;  // kBand in src/ops/max_pool.cpp

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

// group = (piece of an input row: band pixels, input y, image).
template <typename T>
kernel void max_pool2d_bwd_last(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                                uint3 group [[threadgroup_position_in_grid]],
                                uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  typedef compute_t<T> C;
  const RegularWindow rows = reach(p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h);
  const RegularWindow columns = reach(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w);
  const int x_first = int(group.x) * p.band, x_end = min(x_first + p.band, p.in_w), channels = p.channels;
  const ulong image = ulong(group.z) * ulong(p.out_h) * ulong(p.out_w);
  device T* to = grad_in + ((ulong(group.z) * ulong(p.in_h) + group.y) * ulong(p.in_w) + ulong(x_first)) * ulong(channels);
  const int oy_first = rows.first(int(group.y)), oy_last = rows.last(int(group.y));
  int ox_first = columns.first(x_first), ox_last = columns.last(x_first);
  for (int ix = x_first; ix < x_end; ++ix, to += channels) {
    while (ox_first < ox_last && columns.end(ox_first) <= ix) ++ox_first;
    while (ox_last < p.out_w && columns.begin(ox_last) <= ix) ++ox_last;
    const long here = long(group.y) * p.in_w + ix;
    for (int c = int(tid) * kTile; c < channels; c += int(threads.x) * kTile) {
      const int count = min(kTile, channels - c);
      if (oy_last - oy_first == 1 && ox_last - ox_first == 1) {
        const ulong pixel = (image + ulong(oy_first) * ulong(p.out_w) + ulong(ox_first)) * ulong(channels) + ulong(c);
        device const T* g = grad_out + pixel;
        device const long* at = indices + pixel;
        MPSX_VECTORIZE
        for (int j = 0; j < count; ++j) to[c + j] = at[j] == here ? g[j] : T(0);
        continue;
      }
      C sum[kTile];
      for (int j = 0; j < count; ++j) sum[j] = C(0);
      for (int oy = oy_first; oy < oy_last; ++oy) {
        for (int ox = ox_first; ox < ox_last; ++ox) {
          const ulong pixel = (image + ulong(oy) * ulong(p.out_w) + ulong(ox)) * ulong(channels) + ulong(c);
          device const T* g = grad_out + pixel;
          device const long* at = indices + pixel;
          MPSX_VECTORIZE
          for (int j = 0; j < count; ++j) sum[j] += at[j] == here ? C(g[j]) : C(0);
        }
      }
      for (int j = 0; j < count; ++j) to[c + j] = T(sum[j]);
    }
  }
}

#define MAX_POOL(T, TAG, ...)                                \
  MPSX_KERNEL("max_pool2d_" #TAG, max_pool2d<T>)             \
  MPSX_KERNEL("max_pool2d_last_" #TAG, max_pool2d_last<T>)   \
  MPSX_KERNEL("max_pool2d_bwd_" #TAG, max_pool2d_bwd<T>)     \
  MPSX_KERNEL("max_pool2d_bwd_last_" #TAG, max_pool2d_bwd_last<T>)
MPSX_FOR_REAL(MAX_POOL, )
