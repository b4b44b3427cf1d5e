// col2im where a thread owns a whole row: pieces of it add up place by place in the kernel.
#pragma once

enum : int { kFoldPiece = 64 };

template <int S, typename T>
inline void add_windows(thread float* sum, device const T* from, int n, int stride) {
  const int step = S ? S : stride;
  MPSX_VECTORIZE
  for (int i = 0; i < n; ++i) sum[i * step] += float(from[i]);
}

template <typename T>
kernel void fold(device T* out [[buffer(0)]], device const T* columns [[buffer(1)]],
                 constant FoldParams& p [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],
                 uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const ulong windows = ulong(p.windows_h) * ulong(p.windows_w);
  device const T* taps = columns + ulong(group.y) * ulong(p.kernel_h) * ulong(p.kernel_w) * windows;
  device T* to = out + (ulong(group.y) * ulong(p.height) + group.x) * ulong(p.width);
  for (int x = 0; x < p.width; x += kFoldPiece) {
    const int count = min(int(kFoldPiece), p.width - x);
    float sum[kFoldPiece];
    for (int j = 0; j < count; ++j) sum[j] = 0.0f;
    for (int ky = 0; ky < p.kernel_h; ++ky) {
      const int start = int(group.x) + p.pad_h - ky * p.dilation_h, oy = start / p.stride_h;
      if (start < 0 || oy * p.stride_h != start || oy >= p.windows_h) continue;
      for (int kx = 0; kx < p.kernel_w; ++kx) {
        // Window o has this place at o * stride + shift of the piece.
        const int shift = kx * p.dilation_w - p.pad_w - x;
        const int first = max(0, ceil_div(-shift, p.stride_w));
        const int n = min(p.windows_w, ceil_div(count - shift, p.stride_w)) - first;
        device const T* from = taps + (ulong(ky) * ulong(p.kernel_w) + ulong(kx)) * windows +
                               ulong(oy) * ulong(p.windows_w) + ulong(first);
        if (n <= 0) continue;
        if (p.stride_w == 1) add_windows<1>(sum + first + shift, from, n, 1);
        else add_windows<0>(sum + (first * p.stride_w + shift), from, n, p.stride_w);
      }
    }
    MPSX_VECTORIZE
    for (int j = 0; j < count; ++j) to[x + j] = T(sum[j]);
  }
}
