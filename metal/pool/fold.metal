// im2col, its transpose col2im, and the gradient of Tensor.unfold, which sums over the windows that contain an element.
// The im2col kernels copy raw bits, so they are named by element size.
#include "lib/instantiate.h"
#include "lib/compute.h"
#include "pool/window.h"
#include "pool/window_params.h"

// The windows along one dimension of a plane. Dilation increases only the length that a window covers.
inline RegularWindow fold_rows(constant FoldParams& p) {
  return RegularWindow(p.height, p.windows_h, (p.kernel_h - 1) * p.dilation_h + 1, p.stride_h, p.pad_h);
}
inline RegularWindow fold_columns(constant FoldParams& p) {
  return RegularWindow(p.width, p.windows_w, (p.kernel_w - 1) * p.dilation_w + 1, p.stride_w, p.pad_w);
}

// One threadgroup per row of a plane. `columns` has one plane per tap of the kernel, with one element per window. group
// = (row, plane).
template <typename T>
kernel void fold(device T* out [[buffer(0)]], device const T* columns [[buffer(1)]],
                 constant FoldParams& p [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const RegularWindow rows = fold_rows(p), line = fold_columns(p);
  const ulong windows = ulong(p.windows_h) * ulong(p.windows_w);
  device const T* taps = columns + ulong(group.y) * ulong(p.kernel_h) * ulong(p.kernel_w) * windows;
  device T* to = out + (ulong(group.y) * ulong(p.height) + group.x) * ulong(p.width);
  const int y = int(group.x), y0 = rows.first(y), y1 = rows.last(y);
  for (int x = int(tid); x < p.width; x += int(threads.x)) {
    const int x0 = line.first(x), x1 = line.last(x);
    float sum = 0.0f;
    for (int oy = y0; oy < y1; ++oy) {
      const int below = y + p.pad_h - oy * p.stride_h, ky = below / p.dilation_h;
      if (ky * p.dilation_h != below) continue;
      device const T* from = taps + (ulong(ky) * ulong(p.kernel_w) * windows + ulong(oy) * ulong(p.windows_w));
      for (int ox = x0; ox < x1; ++ox) {
        const int right = x + p.pad_w - ox * p.stride_w, kx = right / p.dilation_w;
        if (kx * p.dilation_w == right) sum += float(from[ulong(kx) * windows + ulong(ox)]);
      }
    }
    to[x] = T(sum);
  }
}

// Computes the gradient of Tensor.unfold. The windows of a row may overlap or leave gaps. The elements of each window
// are contiguous in `windows`. gid = (element of a row, row).
template <typename T>
kernel void unfold_bwd(device T* out [[buffer(0)]], device const T* windows [[buffer(1)]],
                       constant FoldParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const int x = int(gid.x);
  const RegularWindow w(p.width, p.windows_w, p.kernel_w, p.stride_w, 0);
  device const T* line = windows + ulong(gid.y) * ulong(p.windows_w) * ulong(p.kernel_w);
  float sum = 0.0f;
  for (int o = w.first(x), end = w.last(x); o < end; ++o)
    sum += float(line[ulong(o) * ulong(p.kernel_w) + ulong(x - o * p.stride_w)]);
  out[ulong(gid.y) * ulong(p.width) + gid.x] = T(sum);
}

// Copies one tap of one window. gid = (window in a row, row of windows, tap of a plane).
template <typename T>
kernel void im2col(device T* out [[buffer(0)]], device const T* in [[buffer(1)]], constant FoldParams& p [[buffer(2)]],
                   uint3 gid [[thread_position_in_grid]]) {
  const uint tap_count = uint(p.kernel_h * p.kernel_w), plane = gid.z / tap_count;
  const int tap = int(gid.z - plane * tap_count), ky = tap / p.kernel_w, kx = tap - ky * p.kernel_w;
  const int iy = int(gid.y) * p.stride_h - p.pad_h + ky * p.dilation_h;
  const int ix = int(gid.x) * p.stride_w - p.pad_w + kx * p.dilation_w;
  const bool inside = iy >= 0 && iy < p.height && ix >= 0 && ix < p.width;
  device const T* from = in + ulong(plane) * ulong(p.height) * ulong(p.width);
  out[(ulong(gid.z) * ulong(p.windows_h) + gid.y) * ulong(p.windows_w) + gid.x] =
      inside ? from[ulong(iy) * ulong(p.width) + ulong(ix)] : T(0);
}
#define IM2COL(T, TAG) MPSX_KERNEL("im2col_" #TAG, im2col<T>)
IM2COL(char, i8)
IM2COL(short, i16)
IM2COL(int, i32)
IM2COL(long, i64)

#define FOLD(T, TAG, ...)            \
  MPSX_KERNEL("fold_" #TAG, fold<T>) \
  MPSX_KERNEL("unfold_bwd_" #TAG, unfold_bwd<T>)
MPSX_FOR_FLOAT(FOLD, )
