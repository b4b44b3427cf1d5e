// max_pool2d on the host driver, where each thread computes whole rows. The forward pass computes eight adjacent
// windows at a time. The backward pass visits each window once and adds its gradient at the maximum. It does not search
// the windows that contain each element.
#pragma once

// Computes eight adjacent windows, starting at column `ox`. They must be completely inside the row. S is their stride
// if it is known at compile time, and 0 otherwise.
template <int S, typename T>
inline void pool_eight_windows(device T* out, device long* indices, device const T* x, constant Pool2dParams& p,
                          PoolRows rows, int ox) {
  typedef compute_t<T> C;
  const int step = S ? S : p.stride_w, start = ox * step - p.pad_w;
  C best[8];
  int where[8];
  for (int j = 0; j < 8; ++j) {
    best[j] = lowest_of(C(0));
    where[j] = rows.y0 * p.in_w + start + j * step;
  }
  for (int iy = rows.y0; iy < rows.y1; iy += p.dilation_h)
    for (int kx = 0; kx < p.kernel_w; ++kx) {
      const int position = iy * p.in_w + start + kx * p.dilation_w;
      for (int j = 0; j < 8; ++j) {
        const C v = C(x[position + j * step]);
        take(best[j], where[j], v, position + j * step);
      }
    }
  for (int j = 0; j < 8; ++j) out[ox + j] = T(best[j]);
  for (int j = 0; j < 8; ++j) indices[ox + j] = where[j];
}

template <typename T>
kernel void max_pool2d(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                       device const T* in [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                       uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                       uint3 threads [[threads_per_threadgroup]]) {
  device const T* x = in + ulong(group.y) * ulong(p.in_h) * ulong(p.in_w);
  // Windows [begin, end) are completely inside the row.
  const int reach = (p.kernel_w - 1) * p.dilation_w, begin = min((p.pad_w + p.stride_w - 1) / p.stride_w, p.out_w);
  const int last = (p.in_w - 1 - reach + p.pad_w) / p.stride_w + 1;
  const int end = p.in_w + p.pad_w <= reach ? begin : clamp(last, begin, p.out_w);
  for (int oy = int(group.x) * p.rows_per_group; oy < min(int(group.x + 1) * p.rows_per_group, p.out_h); ++oy) {
    const ulong row = (ulong(group.y) * ulong(p.out_h) + ulong(oy)) * ulong(p.out_w);
    device T* to = out + row;
    device long* at = indices + row;
    const PoolRows rows(oy * p.stride_h - p.pad_h, p);
    for (int ox = 0; ox < p.out_w;) {
      if (ox < begin || ox >= end || end - begin < 8) {
        max_window(to, at, x, p, rows, ox++);
        continue;
      }
      const int first = min(ox, end - 8);  // the last eight windows may overlap the previous eight
      if (p.stride_w == 1) pool_eight_windows<1>(to, at, x, p, rows, first);
      else if (p.stride_w == 2) pool_eight_windows<2>(to, at, x, p, rows, first);
      else pool_eight_windows<0>(to, at, x, p, rows, first);
      ox = first + 8;
    }
  }
}

// Adds each window's gradient at the index of its maximum. Because a thread processes several rows, it reads a window
// only once or twice, not once for every row that the window covers.
template <typename T>
kernel void max_pool2d_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                           device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                           uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                           uint3 threads [[threads_per_threadgroup]]) {
  typedef compute_t<T> C;
  enum : int { kMaxChunk = 2048 };
  const int rows_per_group = max(kMaxChunk / p.in_w, 1), iy = int(group.x);
  if (iy % rows_per_group != 0) return;
  const int lines = min(rows_per_group, p.in_h - iy);
  const RegularWindow rows = reach(p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h, p.dilation_h);
  const RegularWindow columns = reach(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w, p.dilation_w);
  const int y0 = rows.first(iy), y1 = rows.last(iy + lines - 1);
  const ulong plane = ulong(group.y) * ulong(p.out_h) * ulong(p.out_w);
  device const T* g = grad_out + plane;
  device const long* at = indices + plane;
  device T* to = grad_in + (ulong(group.y) * ulong(p.in_h) + group.x) * ulong(p.in_w);
  for (int ix = 0; ix < p.in_w; ix += kMaxChunk) {  // needs several iterations only if the threadgroup has a single row
    const int width = min(int(kMaxChunk), p.in_w - ix), count = lines * width, here = iy * p.in_w + ix;
    const int x0 = columns.first(ix), x1 = columns.last(ix + width - 1);
    C sum[kMaxChunk];
    for (int j = 0; j < count; ++j) sum[j] = C(0);
    for (int oy = y0; oy < y1; ++oy)
      for (int o = oy * p.out_w + x0, end = oy * p.out_w + x1; o < end; ++o) {
        const int j = int(at[o]) - here;
        if (j >= 0 && j < count) sum[j] += C(g[o]);
      }
    MPSX_VECTORIZE
    for (int j = 0; j < count; ++j) to[ix + j] = T(sum[j]);
  }
}

// Scatters the gradients of the windows that tile input row `row`. N is the windows' width if it is known at compile
// time, and 0 otherwise.
template <int N, typename T>
inline void spread_windows(device T* plane, device const T* g, device const long* at, constant Pool2dParams& p,
                           int row) {
  const int width = N ? N : p.kernel_w, begin = row * p.in_w;
  MPSX_VECTORIZE
  for (int k = 0; k < p.out_w; ++k) {
    const T value = g[k];
    const int max_index = int(at[k]) - (begin + k * width);
    for (int kx = 0; kx < width; ++kx) plane[begin + k * width + kx] = max_index == kx ? value : T(0);
  }
}

template <typename T>
kernel void max_pool2d_bwd_tiled(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                 device const long* indices [[buffer(2)]], constant Pool2dParams& p [[buffer(3)]],
                                 uint3 group [[threadgroup_position_in_grid]],
                                 uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const ulong windows = (ulong(group.y) * ulong(p.out_h) + group.x) * ulong(p.out_w);
  device T* plane = grad_in + ulong(group.y) * ulong(p.in_h) * ulong(p.in_w);
  for (int ky = 0; ky < p.kernel_h; ++ky) {
    const int row = int(group.x) * p.kernel_h + ky;
    if (p.kernel_w == 2) spread_windows<2>(plane, grad_out + windows, indices + windows, p, row);
    else if (p.kernel_w == 3) spread_windows<3>(plane, grad_out + windows, indices + windows, p, row);
    else spread_windows<0>(plane, grad_out + windows, indices + windows, p, row);
  }
}
