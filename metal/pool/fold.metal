// im2col, whose windows are moved as bits, named by their size. col2im, and with it the gradient of im2col, and that of
// Tensor.unfold: an element adds up the windows that it is in.
#include "lib/instantiate.h"
#include "lib/compute.h"
#include "pool/window.h"
#include "pool/window_params.h"

template <int S, typename T>
inline void add_windows(thread float* sum, device const T* from, int n, int stride) {
  const int step = S ? S : stride;
  MPSX_VECTORIZE
  for (int i = 0; i < n; ++i) sum[i * step] += float(from[i]);
}

// One threadgroup per row of a plane: group = (y, plane). `columns` holds, for each place in the kernel, a plane of windows.
template <typename T>
kernel void fold(device T* out [[buffer(0)]], device const T* columns [[buffer(1)]],
                 constant FoldParams& p [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const ulong windows = ulong(p.windows_h) * ulong(p.windows_w);
  device const T* taps = columns + ulong(group.y) * ulong(p.kernel_h) * ulong(p.kernel_w) * windows;
  device T* to = out + (ulong(group.y) * ulong(p.height) + group.x) * ulong(p.width);
  for (int x0 = int(tid) * kTile; x0 < p.width; x0 += int(threads.x) * kTile) {
    const int count = min(kTile, p.width - x0);
    float sum[kTile];
    for (int j = 0; j < count; ++j) sum[j] = 0.0f;
    for (int ky = 0; ky < p.kernel_h; ++ky) {
      const int start = int(group.x) + p.pad_h - ky * p.dilation_h, oy = start / p.stride_h;
      if (start < 0 || oy * p.stride_h != start || oy >= p.windows_h) continue;
      for (int kx = 0; kx < p.kernel_w; ++kx) {
        const int shift = kx * p.dilation_w - p.pad_w - x0;  // window o has this tap at o * stride + shift of the piece
        const int first = max(0, ceil_div(-shift, p.stride_w));
        const int n = min(p.windows_w, ceil_div(count - shift, p.stride_w)) - first;
        device const T* from = taps + (ulong(ky) * ulong(p.kernel_w) + ulong(kx)) * windows +
                               ulong(oy) * ulong(p.windows_w) + ulong(first);
        thread float* here = sum + (first * p.stride_w + shift);
        if (n <= 0) continue;
        if (p.stride_w == 1) {
          add_windows<1>(here, from, n, 1);
        } else {
          add_windows<0>(here, from, n, p.stride_w);
        }
      }
    }
    for (int j = 0; j < count; ++j) to[x0 + j] = T(sum[j]);
  }
}

// The gradient of Tensor.unfold: windows of a line, with gaps or overlapping, their elements side by side in `windows`.
// gid = (piece of a line, line).
template <typename T>
kernel void unfold_bwd(device T* out [[buffer(0)]], device const T* windows [[buffer(1)]],
                       constant FoldParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const int x0 = int(gid.x) * kTile, count = min(kTile, p.width - x0);
  const RegularWindow w(p.width, p.windows_w, p.kernel_w, p.stride_w, 0);
  device const T* line = windows + ulong(gid.y) * ulong(p.windows_w) * ulong(p.kernel_w);
  device T* to = out + ulong(gid.y) * ulong(p.width) + ulong(x0);
  float sum[kTile];
  for (int j = 0; j < count; ++j) sum[j] = 0.0f;
  for (int o = w.first(x0), end = w.last(x0 + count - 1); o < end; ++o) {
    const int start = o * p.stride_w - x0, low = max(start, 0), n = min(start + p.kernel_w, count) - low;
    device const T* from = line + (ulong(o) * ulong(p.kernel_w) + ulong(low - start));
    MPSX_VECTORIZE
    for (int i = 0; i < n; ++i) sum[low + i] += float(from[i]);
  }
  for (int j = 0; j < count; ++j) to[j] = T(sum[j]);
}

// One place in the kernel of a row of windows: gid = (row of windows, place, plane); a GPU's thread has one of them and
// gid.x counts them all.
template <typename T>
kernel void im2col(device T* out [[buffer(0)]], device const T* in [[buffer(1)]], constant FoldParams& p [[buffer(2)]],
                   uint3 gid [[thread_position_in_grid]]) {
  const int ky = int(gid.y) / p.kernel_w, kx = int(gid.y) - ky * p.kernel_w, windows = p.windows_w;
  const int oy = kTile == 1 ? int(gid.x) / windows : int(gid.x), begin = kTile == 1 ? int(gid.x) - oy * windows : 0;
  const int end = kTile == 1 ? begin + 1 : windows;
  const ulong place = ulong(gid.z) * ulong(p.kernel_h) * ulong(p.kernel_w) + gid.y;
  device T* to = out + (place * ulong(p.windows_h) + ulong(oy)) * ulong(windows);
  const int iy = oy * p.stride_h - p.pad_h + ky * p.dilation_h, shift = kx * p.dilation_w - p.pad_w;
  // The windows [first, last) have the place inside.
  const bool inside = iy >= 0 && iy < p.height;
  const int first = inside ? clamp(ceil_div(-shift, p.stride_w), begin, end) : end;
  const int last = clamp(ceil_div(p.width - shift, p.stride_w), first, end);
  device const T* from = in + (ulong(gid.z) * ulong(p.height) + ulong(inside ? iy : 0)) * ulong(p.width);
  for (int i = begin; i < first; ++i) to[i] = T(0);
  if (p.stride_w == 1) {
    MPSX_VECTORIZE
    for (int i = first; i < last; ++i) to[i] = from[i + shift];
  } else {
    MPSX_VECTORIZE
    for (int i = first; i < last; ++i) to[i] = from[i * p.stride_w + shift];
  }
  for (int i = last; i < end; ++i) to[i] = T(0);
}
#define IM2COL(T, TAG) MPSX_KERNEL("im2col_" #TAG, im2col<T>)
IM2COL(char, i8)
IM2COL(short, i16)
IM2COL(int, i32)
IM2COL(long, i64)

#define FOLD(T, TAG, ...)                                \
  MPSX_KERNEL("fold_" #TAG, fold<T>)                     \
  MPSX_KERNEL("unfold_bwd_" #TAG, unfold_bwd<T>)
MPSX_FOR_FLOAT(FOLD, )
