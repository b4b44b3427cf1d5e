// max_pool2d with indices. In the backward pass, each input element sums the gradients of the windows whose maximum it
// is, in order.
#include "lib/instantiate.h"
#include "pool/maximum.h"
#include "pool/window.h"

// The input rows [y0, y1) that the windows of one output row cover.
struct PoolRows {
  int y0, y1;
  PoolRows(int start, constant Pool2dParams& p)
      : y0(first_inside(start, p.dilation_h)), y1(min(start + (p.kernel_h - 1) * p.dilation_h + 1, p.in_h)) {}
};

// Finds the maximum and its index for the window at column `ox`.
template <typename T>
inline void max_window(device T* out, device long* indices, device const T* x, constant Pool2dParams& p, PoolRows rows,
                       int ox) {
  typedef compute_t<T> C;
  const int start = ox * p.stride_w - p.pad_w, x0 = first_inside(start, p.dilation_w);
  const int x1 = min(start + (p.kernel_w - 1) * p.dilation_w + 1, p.in_w);
  C best = lowest_of(C(0));
  int where = rows.y0 * p.in_w + x0;
  for (int iy = rows.y0; iy < rows.y1; iy += p.dilation_h)
    MPSX_FEW
    for (int ix = x0; ix < x1; ix += p.dilation_w) take(best, where, C(x[iy * p.in_w + ix]), iy * p.in_w + ix);
  out[ox] = T(best);
  indices[ox] = where;
}

// A threadgroup computes rows of an output plane, a few at a time. group = (block of rows, plane).
template <typename T>
kernel void max_pool2d(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                       device const T* in [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                       uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                       uint3 threads [[threads_per_threadgroup]]) {
  device const T* x = in + ulong(group.y) * ulong(p.in_h) * ulong(p.in_w);
  const uint across = min(uint(p.across), threads.x), down = threads.x / across;
  const int begin = int(group.x) * p.rows_per_group, end = min(begin + p.rows_per_group, p.out_h);
  for (int oy = begin + int(tid / across); oy < end && tid < across * down; oy += int(down)) {
    const ulong row = (ulong(group.y) * ulong(p.out_h) + ulong(oy)) * ulong(p.out_w);
    const PoolRows rows(oy * p.stride_h - p.pad_h, p);
    for (int ox = int(tid % across); ox < p.out_w; ox += int(across))
      max_window(out + row, indices + row, x, p, rows, ox);
  }
}

// Finds the maxima of one window for N channels, starting at channel c.
template <int N, typename T>
inline void window_last(int c, device T* out, device long* indices, device const T* x, constant Pool2dParams& p,
                        PoolRows rows, int start) {
  typedef compute_t<T> C;
  const int x0 = first_inside(start, p.dilation_w), x1 = min(start + (p.kernel_w - 1) * p.dilation_w + 1, p.in_w);
  C best[N];
  int where[N];
  for (int j = 0; j < N; ++j) {
    best[j] = lowest_of(C(0));
    where[j] = rows.y0 * p.in_w + x0;
  }
  for (int iy = rows.y0; iy < rows.y1; iy += p.dilation_h)
    for (int ix = x0; ix < x1; ix += p.dilation_w) {
      const int position = iy * p.in_w + ix;
      device const T* tap = x + ulong(position) * ulong(p.channels) + c;
      for (int j = 0; j < N; ++j) {
        const C v = C(tap[j]);
        take(best[j], where[j], v, position);
      }
    }
  for (int j = 0; j < N; ++j) out[c + j] = T(best[j]);
  for (int j = 0; j < N; ++j) indices[c + j] = where[j];
}

// For channels_last, with one threadgroup per output pixel. group = (column, row, image).
template <typename T>
kernel void max_pool2d_last(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                            device const T* in [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                            uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                            uint3 threads [[threads_per_threadgroup]]) {
  device const T* x = in + ulong(group.z) * ulong(p.in_h) * ulong(p.in_w) * ulong(p.channels);
  const ulong pixel = ((ulong(group.z) * ulong(p.out_h) + group.y) * ulong(p.out_w) + group.x) * ulong(p.channels);
  const PoolRows rows(int(group.y) * p.stride_h - p.pad_h, p);
  const int start = int(group.x) * p.stride_w - p.pad_w;
  MPSX_EACH_CHANNEL_TILE(window_last, out + pixel, indices + pixel, x, p, rows, start)
}

// Returns the windows that may contain an input element along one dimension.
inline RegularWindow reach(int in, int out, int size, int stride, int pad, int dilation) {
  return RegularWindow(in, out, (size - 1) * dilation + 1, stride, pad);
}

// One threadgroup per row of an input plane. group = (row, plane).
template <typename T>
kernel void max_pool2d_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                           device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                           uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                           uint3 threads [[threads_per_threadgroup]]) {
  typedef compute_t<T> C;
  const RegularWindow rows = reach(p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h);
  const RegularWindow columns = reach(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w);
  const int iy = int(group.x), y0 = rows.first(iy), y1 = rows.last(iy);
  const ulong plane = ulong(group.y) * ulong(p.out_h) * ulong(p.out_w);
  device const T* g = grad_out + plane;
  device const long* at = indices + plane;
  device T* to = grad_in + (ulong(group.y) * ulong(p.in_h) + group.x) * ulong(p.in_w);
  for (int ix = int(tid); ix < p.in_w; ix += int(threads.x)) {
    const long here = long(iy) * p.in_w + ix;
    const int x0 = columns.first(ix), x1 = columns.last(ix);
    C sum = C(0);
    for (int oy = y0; oy < y1; ++oy)
      MPSX_FEW
      for (int ox = x0; ox < x1; ++ox)
        if (at[oy * p.out_w + ox] == here) sum += C(g[oy * p.out_w + ox]);
    to[ix] = T(sum);
  }
}

// Computes a pixel's gradient for N channels, as a sum over windows [y0, y1) x [x0, x1).
template <int N, typename T>
inline void gather_last(int c, device T* to, device const T* g, device const long* at, constant Pool2dParams& p, int y0,
                        int y1, int x0, int x1, long here) {
  typedef compute_t<T> C;
  C sum[N];
  for (int j = 0; j < N; ++j) sum[j] = C(0);
  for (int oy = y0; oy < y1; ++oy)
    for (int ox = x0; ox < x1; ++ox) {
      const long window = (long(oy) * p.out_w + ox) * p.channels + c;
      for (int j = 0; j < N; ++j) {
        const C v = C(g[window + j]);
        sum[j] += at[window + j] == here ? v : C(0);
      }
    }
  for (int j = 0; j < N; ++j) to[c + j] = T(sum[j]);
}

// One threadgroup per input pixel. group = (column, row, image).
template <typename T>
kernel void max_pool2d_bwd_last(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                                uint3 group [[threadgroup_position_in_grid]],
                                uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const RegularWindow rows = reach(p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h);
  const RegularWindow columns = reach(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w);
  const int ix = int(group.x), iy = int(group.y);
  const ulong image = ulong(group.z) * ulong(p.out_h) * ulong(p.out_w) * ulong(p.channels);
  device T* to = grad_in + ((ulong(group.z) * ulong(p.in_h) + group.y) * ulong(p.in_w) + group.x) * ulong(p.channels);
  const int y0 = rows.first(iy), y1 = rows.last(iy), x0 = columns.first(ix), x1 = columns.last(ix);
  const long here = long(iy) * p.in_w + ix;
  MPSX_EACH_CHANNEL_TILE(gather_last, to, grad_out + image, indices + image, p, y0, y1, x0, x1, here)
}

// Backward pass for windows that do not overlap. Every input element is in at most one window, so each window writes
// the gradients of its elements. The launcher zeros the elements after the last window. There is one threadgroup per
// row of windows. group = (row, plane).
template <typename T>
kernel void max_pool2d_bwd_tiled(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                 device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                                 uint3 group [[threadgroup_position_in_grid]],
                                 uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const ulong row = (ulong(group.y) * ulong(p.out_h) + group.x) * ulong(p.out_w);
  device T* plane = grad_in + ulong(group.y) * ulong(p.in_h) * ulong(p.in_w);
  for (int ox = int(tid); ox < p.out_w; ox += int(threads.x)) {
    const T value = grad_out[row + ulong(ox)];
    const int max_index = int(indices[row + ulong(ox)]);
    for (int ky = 0; ky < p.kernel_h; ++ky) {
      const int begin = (int(group.x) * p.kernel_h + ky) * p.in_w + ox * p.kernel_w;
      MPSX_FEW
      for (int at = begin; at < begin + p.kernel_w; ++at) plane[at] = at == max_index ? value : T(0);
    }
  }
}

// Writes the gradient of one window for N channels.
template <int N, typename T>
inline void spread_last(int c, device T* to, device const T* g, device const long* indices, constant Pool2dParams& p,
                        int y0, int x0) {
  T value[N];
  int where[N];
  for (int j = 0; j < N; ++j) {
    value[j] = g[c + j];
    where[j] = int(indices[c + j]);
  }
  for (int ky = 0; ky < p.kernel_h; ++ky)
    for (int kx = 0; kx < p.kernel_w; ++kx) {
      const int position = (y0 + ky) * p.in_w + x0 + kx;
      device T* pixel = to + ulong(position) * ulong(p.channels) + c;
      MPSX_VECTORIZE
      for (int j = 0; j < N; ++j) pixel[j] = where[j] == position ? value[j] : T(0);
    }
}

// One threadgroup per window. group = (column, row, image).
template <typename T>
kernel void max_pool2d_bwd_last_tiled(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                      device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                                      uint3 group [[threadgroup_position_in_grid]],
                                      uint tid [[thread_index_in_threadgroup]],
                                      uint3 threads [[threads_per_threadgroup]]) {
  device T* to = grad_in + ulong(group.z) * ulong(p.in_h) * ulong(p.in_w) * ulong(p.channels);
  const ulong pixel = ((ulong(group.z) * ulong(p.out_h) + group.y) * ulong(p.out_w) + group.x) * ulong(p.channels);
  const int y0 = int(group.y) * p.kernel_h, x0 = int(group.x) * p.kernel_w;
  MPSX_EACH_CHANNEL_TILE(spread_last, to, grad_out + pixel, indices + pixel, p, y0, x0)
}

#define MAX_POOL(T, TAG, ...)                                        \
  MPSX_KERNEL("max_pool2d_" #TAG, max_pool2d<T>)                     \
  MPSX_KERNEL("max_pool2d_last_" #TAG, max_pool2d_last<T>)           \
  MPSX_KERNEL("max_pool2d_bwd_" #TAG, max_pool2d_bwd<T>)             \
  MPSX_KERNEL("max_pool2d_bwd_tiled_" #TAG, max_pool2d_bwd_tiled<T>) \
  MPSX_KERNEL("max_pool2d_bwd_last_" #TAG, max_pool2d_bwd_last<T>)   \
  MPSX_KERNEL("max_pool2d_bwd_last_tiled_" #TAG, max_pool2d_bwd_last_tiled<T>)
MPSX_FOR_REAL(MAX_POOL, )
