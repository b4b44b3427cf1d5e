// Average pooling over regular (avg_pool2d) and adaptive windows. Backwards gather: an input element adds up the windows
// that hold it, in order. A thread handles kTile neighbours: rows are added up first, in vectors, then columns.
#include "lib/instantiate.h"
#include "pool/window.h"

// Taps of regular windows: a[i * step] and b[i] for neighbouring windows i.
template <int S>
inline void collect_taps(thread float* to, thread const float* from, int n, int stride) {
  const int step = S ? S : stride;
  MPSX_VECTORIZE
  for (int i = 0; i < n; ++i) to[i] += from[i * step];
}
template <int S>
inline void spread_taps(thread float* to, thread const float* from, int n, int stride) {
  const int step = S ? S : stride;
  MPSX_VECTORIZE
  for (int i = 0; i < n; ++i) to[i * step] += from[i];
}

// The windows [ox, ox + count) against the columns [x, x + n). collect: each window adds up its columns; spread: each
// column adds up its windows.
struct Regular {
  enum : bool { kRegular = true };
  RegularWindow rows, columns;
  int include_pad, divisor_override;
  explicit Regular(constant Pool2dParams& p)
      : rows(p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h),
        columns(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w),
        include_pad(p.count_include_pad),
        divisor_override(p.divisor) {}
  // The divisor is the product of both.
  int row_size(int oy) const {
    if (divisor_override) return divisor_override;
    return include_pad ? rows.padded(oy) : rows.end(oy) - rows.begin(oy);
  }
  int column_size(int ox) const {
    if (divisor_override) return 1;
    return include_pad ? columns.padded(ox) : columns.end(ox) - columns.begin(ox);
  }
  void collect(thread float* sum, int ox, int count, thread const float* column, int x, int n) const {
    const int stride = columns.stride;
    for (int k = 0; k < columns.kernel_size; ++k) {
      const Taps t(ox * stride - columns.pad + k - x, count, n, stride);
      if (t.count <= 0) continue;
      if (stride == 1) {
        collect_taps<1>(sum + t.window, column + t.column, t.count, 1);
      } else if (stride == 2) {
        collect_taps<2>(sum + t.window, column + t.column, t.count, 2);
      } else {
        collect_taps<0>(sum + t.window, column + t.column, t.count, stride);
      }
    }
  }
  void spread(thread float* sum, int x, int n, thread const float* window, int ox, int count) const {
    const int stride = columns.stride;
    for (int k = columns.kernel_size - 1; k >= 0; --k) {
      const Taps t(ox * stride - columns.pad + k - x, count, n, stride);
      if (t.count <= 0) continue;
      if (stride == 1) {
        spread_taps<1>(sum + t.column, window + t.window, t.count, 1);
      } else if (stride == 2) {
        spread_taps<2>(sum + t.column, window + t.window, t.count, 2);
      } else {
        spread_taps<0>(sum + t.column, window + t.window, t.count, stride);
      }
    }
  }

 private:
  // Which of the windows have one tap inside the columns; window 0 has it in column `at`.
  struct Taps {
    int window, column, count;
    Taps(int at, int windows, int n, int stride) {
      window = at >= 0 ? 0 : (-at + stride - 1) / stride;
      column = at + window * stride;
      count = column >= n ? 0 : min(windows - window, (n - 1 - column) / stride + 1);
    }
  };
};

struct Adaptive {
  enum : bool { kRegular = false };
  AdaptiveWindow rows, columns;
  explicit Adaptive(constant Pool2dParams& p) : rows(p.in_h, p.out_h), columns(p.in_w, p.out_w) {}
  int row_size(int oy) const { return rows.end(oy) - rows.begin(oy); }
  int column_size(int ox) const { return columns.end(ox) - columns.begin(ox); }
  void collect(thread float* sum, int ox, int count, thread const float* column, int x, int n) const {
    for (int j = 0; j < count; ++j) {
      const int begin = max(columns.begin(ox + j) - x, 0), end = min(columns.end(ox + j) - x, n);
      float s = 0.0f;
      MPSX_REDUCE(+ : s)
      for (int i = begin; i < end; ++i) s += column[i];
      sum[j] += s;
    }
  }
  void spread(thread float* sum, int x, int n, thread const float* window, int ox, int count) const {
    for (int j = 0; j < count; ++j) {
      const int begin = max(columns.begin(ox + j) - x, 0), end = min(columns.end(ox + j) - x, n);
      const float v = window[j];
      MPSX_VECTORIZE
      for (int i = begin; i < end; ++i) sum[i] += v;
    }
  }
};

#if !MPSX_VECTOR_BYTES
// On a CPU windows of few elements: their sums are held by registers, where rows are too short to be added up first.
enum : int { kFewTaps = 16 };
template <int N, int S, typename T>
inline void means_inside(device T* to, device const T* first, int in_w, int rows, RegularWindow columns, float divisor) {
  const int step = S ? S : columns.stride;
  float sum[N];
  for (int j = 0; j < N; ++j) sum[j] = 0.0f;
  for (int y = 0; y < rows; ++y)
    for (int k = 0; k < columns.kernel_size; ++k)
      for (int j = 0; j < N; ++j) sum[j] += float(first[y * in_w + k + j * step]);
  for (int j = 0; j < N; ++j) to[j] = T(sum[j] / divisor);
}
template <typename T>
inline void few_taps(device T* to, device const T* x, Regular w, int oy, int ox, int end) {
  const int y = w.rows.begin(oy), rows = w.rows.end(oy) - y, in_w = w.columns.in, stride = w.columns.stride;
  while (ox < end) {
    const int x0 = ox * stride - w.columns.pad, spare = in_w - x0 - w.columns.kernel_size;
    const int inside = x0 < 0 || spare < 0 ? 0 : min(end - ox, spare / stride + 1);
    device const T* from = x + y * in_w + x0;
    const float divisor = float(w.row_size(oy) * w.column_size(ox));
    int n = 1;
    if (inside >= 16) {
      n = 16;
      if (stride == 2) means_inside<16, 2>(to, from, in_w, rows, w.columns, divisor);
      else means_inside<16, 0>(to, from, in_w, rows, w.columns, divisor);
    } else if (inside >= 4) {
      n = 4;
      if (stride == 2) means_inside<4, 2>(to, from, in_w, rows, w.columns, divisor);
      else means_inside<4, 0>(to, from, in_w, rows, w.columns, divisor);
    } else if (inside >= 2) {
      n = 2;
      if (stride == 2) means_inside<2, 2>(to, from, in_w, rows, w.columns, divisor);
      else means_inside<2, 0>(to, from, in_w, rows, w.columns, divisor);
    } else {
      const int begin = w.columns.begin(ox), last = w.columns.end(ox);
      float sum = 0.0f;
      for (int i = 0; i < rows; ++i)
        MPSX_FEW
        for (int k = begin; k < last; ++k) sum += float(x[(y + i) * in_w + k]);
      *to = T(sum / divisor);
    }
    ox += n;
    to += n;
  }
}
template <typename T>
inline void few_taps(device T*, device const T*, Adaptive, int, int, int) {}

// The gradient of short rows where windows lie side by side: rows [y, end) of the input.
template <typename T>
inline void spread_tiles(device T* to, device const T* g, Regular w, int y, int end) {
  const int height = w.rows.kernel_size, width = w.columns.kernel_size, out_w = w.columns.out, in_w = w.columns.in;
  for (int iy = y; iy < end; ++iy) {
    device T* row = to + iy * in_w;
    const int oy = iy / height;
    device const T* from = g + oy * out_w;
    const float divisor = oy < w.rows.out ? float(w.row_size(oy) * w.column_size(0)) : 1.0f;
    for (int ox = 0; ox < out_w; ++ox) {
      const T v = oy < w.rows.out ? T(float(from[ox]) / divisor) : T(0.0f);
      MPSX_FEW
      for (int k = 0; k < width; ++k) row[ox * width + k] = v;
    }
  }
}
template <typename T>
inline void spread_tiles(device T*, device const T*, Adaptive, int, int) {}
#endif

// gid = (tile of output x, output y, plane).
template <typename T, typename Windows>
kernel void avg_pool(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant Pool2dParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const Windows w(p);
  const int oy = int(gid.y), ox = int(gid.x) * kTile, count = min(kTile, p.out_w - ox);
  device const T* x = in + ulong(gid.z) * ulong(p.in_h) * ulong(p.in_w);
  device T* to = out + ((ulong(gid.z) * ulong(p.out_h) + gid.y) * ulong(p.out_w) + ulong(ox));
#if !MPSX_VECTOR_BYTES
  if (Windows::kRegular && p.out_w <= 8 && p.kernel_h * p.kernel_w <= kFewTaps) {
    return few_taps(to, x, w, oy, ox, ox + count);
  }
#endif
  const int y_first = w.rows.begin(oy), y_end = w.rows.end(oy);
  const int x_first = w.columns.begin(ox), x_end = w.columns.end(ox + count - 1);
  float sum[kTile], column[kTile];
  for (int j = 0; j < count; ++j) sum[j] = 0.0f;
  for (int ix = x_first; ix < x_end; ix += kTile) {
    const int n = min(kTile, x_end - ix);
    for (int i = 0; i < n; ++i) column[i] = 0.0f;
    for (int iy = y_first; iy < y_end; ++iy) {
      device const T* row = x + (ulong(iy) * ulong(p.in_w) + ulong(ix));
      MPSX_VECTORIZE
      for (int i = 0; i < n; ++i) column[i] += float(row[i]);
    }
    if (kTile == 1) {
      sum[0] += column[0];
    } else {
      w.collect(sum, ox, count, column, ix, n);
    }
  }
  const int row_size = w.row_size(oy);
  for (int j = 0; j < count; ++j) to[j] = T(sum[j] / float(row_size * w.column_size(ox + j)));
}

// channels_last: one threadgroup per output pixel; group = (output x, output y, image).
template <typename T, typename Windows>
kernel void avg_pool_last(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                          constant Pool2dParams& p [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],
                          uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const Windows w(p);
  const int oy = int(group.y), ox = int(group.x);
  const ulong image = ulong(group.z) * ulong(p.in_h);
  device T* to = out + ((ulong(group.z) * ulong(p.out_h) + group.y) * ulong(p.out_w) + group.x) * ulong(p.channels);
  const int x_first = w.columns.begin(ox), x_end = w.columns.end(ox);
  const float divisor = float(w.row_size(oy) * w.column_size(ox));
  for (int c = int(tid) * kTile; c < p.channels; c += int(threads.x) * kTile) {
    const int count = min(kTile, p.channels - c);
    float sum[kTile];
    for (int j = 0; j < count; ++j) sum[j] = 0.0f;
    for (int iy = w.rows.begin(oy), end = w.rows.end(oy); iy < end; ++iy) {
      for (int ix = x_first; ix < x_end; ++ix) {
        device const T* from = in + ((image + ulong(iy)) * ulong(p.in_w) + ulong(ix)) * ulong(p.channels) + c;
        MPSX_VECTORIZE
        for (int j = 0; j < count; ++j) sum[j] += float(from[j]);
      }
    }
    for (int j = 0; j < count; ++j) to[c + j] = T(sum[j] / divisor);
  }
}

// gid = (tile of input x, band of input rows, plane).
template <typename T, typename Windows>
kernel void avg_pool_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                         constant Pool2dParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const Windows w(p);
  const int ix = int(gid.x) * kTile, n = min(kTile, p.in_w - ix);
  const int y_first = int(gid.y) * p.band, y_end = min(y_first + p.band, p.in_h);
  device const T* g = grad_out + ulong(gid.z) * ulong(p.out_h) * ulong(p.out_w);
  device T* to = grad_in + (ulong(gid.z) * ulong(p.in_h) * ulong(p.in_w) + ulong(ix));
#if !MPSX_VECTOR_BYTES
  if (Windows::kRegular && p.in_w <= 16 && p.kernel_h == p.stride_h && p.kernel_w == p.stride_w && p.pad_h == 0 &&
      p.pad_w == 0 && p.in_w == p.out_w * p.kernel_w)
    return spread_tiles(to, g, w, y_first, y_end);
#endif
  const int ox_first = w.columns.first(ix), ox_last = w.columns.last(ix + n - 1);
  float sum[kTile], window[kTile], size[kTile];
  int oy_first = -1, oy_last = -1, sized = -1;
  for (int iy = y_first; iy < y_end; ++iy) {
    const int first = w.rows.first(iy), last = w.rows.last(iy);
    if (first != oy_first || last != oy_last) {  // neighbouring rows often lie in the same windows
      oy_first = first;
      oy_last = last;
      for (int j = 0; j < n; ++j) sum[j] = 0.0f;
      for (int ox = ox_first; ox < ox_last; ox += kTile) {
        const int count = min(kTile, ox_last - ox);
        if (sized != ox)
          for (int j = 0; j < count; ++j) size[j] = float(w.column_size(ox + j));
        sized = ox;
        for (int j = 0; j < count; ++j) window[j] = 0.0f;
        for (int oy = first; oy < last; ++oy) {
          device const T* row = g + (ulong(oy) * ulong(p.out_w) + ulong(ox));
          const float row_size = float(w.row_size(oy));
          MPSX_VECTORIZE
          for (int j = 0; j < count; ++j) window[j] += float(row[j]) / (row_size * size[j]);
        }
        if (kTile == 1) {
          sum[0] += window[0];
        } else {
          w.spread(sum, ix, n, window, ox, count);
        }
      }
    }
    device T* row = to + ulong(iy) * ulong(p.in_w);
    for (int j = 0; j < n; ++j) row[j] = T(sum[j]);
  }
}

// n elements from `distance` elements before; pieces of any length may overlap their source's end.
template <typename T>
inline void repeat(device T* to, int distance, int n) {
  for (int done = 0; done < n;) {  // what has been copied is copied along
    const int part = min(distance + done, n - done);
    device const T* from = to - distance;
    MPSX_VECTORIZE
    for (int i = 0; i < part; ++i) to[done + i] = from[i];
    done += part;
  }
}

// What one pixel's `count` channels, or N where that is not 0, which registers hold, get of windows; `from`: of the first.
template <int N, typename T, typename Windows>
inline void spread_pixel(device T* to, device const T* from, constant Pool2dParams& p,
                         thread const WindowSizes<Windows>& sizes, int oy_first, int oy_last, int ox_first, int ox_last,
                         int count) {
  const int n = N ? N : count;
  if (oy_last - oy_first == 1 && ox_last - ox_first == 1) {
    const float divisor = sizes.divisor(oy_first, ox_first);
    MPSX_VECTORIZE
    for (int j = 0; j < n; ++j) to[j] = T(float(from[j]) / divisor);
    return;
  }
  float sum[N ? N : kTile];
  for (int j = 0; j < n; ++j) sum[j] = 0.0f;
  for (int oy = oy_first; oy < oy_last; ++oy) {
    for (int ox = ox_first; ox < ox_last; ++ox) {
      const float divisor = sizes.divisor(oy, ox);
      device const T* g = from + (ulong(oy - oy_first) * ulong(p.out_w) + ulong(ox - ox_first)) * ulong(p.channels);
      MPSX_VECTORIZE
      for (int j = 0; j < n; ++j) sum[j] += float(g[j]) / divisor;
    }
  }
  for (int j = 0; j < n; ++j) to[j] = T(sum[j]);
}

// Neighbouring pixels of one row of the input, channels_last. `to`: the channels of the first. A CPU's thread copies
// what lies in the same windows as the pixel before it; a GPU's group has one pixel.
template <typename T, typename Windows>
inline void spread_pixels(device T* to, device const T* grad_out, constant Pool2dParams& p,
                          thread const WindowSizes<Windows>& sizes, int oy_first, int oy_last, int x_first, int x_end,
                          uint tid, uint threads) {
  const int channels = p.channels;
  const Windows w = sizes.w;
  int ox_first = w.columns.first(x_first), ox_last = w.columns.last(x_first);
  int leaves = w.columns.end(ox_first), enters = ox_last < p.out_w ? w.columns.begin(ox_last) : p.in_w;
  for (int ix = x_first; ix < x_end;) {
    while (ix >= leaves && ox_first < p.out_w) leaves = w.columns.end(++ox_first);
    while (ix >= enters && ox_last < p.out_w) enters = ++ox_last < p.out_w ? w.columns.begin(ox_last) : p.in_w;
    device const T* from = grad_out + (ulong(oy_first) * ulong(p.out_w) + ulong(ox_first)) * ulong(channels);
    int c = int(tid) * kTile;
#if !MPSX_VECTOR_BYTES
    for (; c + 8 <= channels && channels < kTile; c += 8)
      spread_pixel<8>(to + c, from + c, p, sizes, oy_first, oy_last, ox_first, ox_last, 8);
#endif
    for (; c < channels; c += int(threads) * kTile)
      spread_pixel<0>(to + c, from + c, p, sizes, oy_first, oy_last, ox_first, ox_last, min(kTile, channels - c));
    // Past the last window both stay where they are.
    const int leave = ox_first < p.out_w ? leaves : x_end, enter = ox_last < p.out_w ? enters : x_end;
    const int next = kTile == 1 ? ix + 1 : max(min(min(leave, enter), x_end), ix + 1);
    if (next > ix + 1) repeat(to + channels, channels, (next - ix - 1) * channels);
    to += ulong(next - ix) * ulong(channels);
    ix = next;
  }
}

// group = (piece of an input row: band pixels, band of rows, image).
template <typename T, typename Windows>
kernel void avg_pool_bwd_last(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                              constant Pool2dParams& p [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],
                              uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const Windows w(p);
  const int x_first = int(group.x) * p.band, x_end = min(x_first + p.band, p.in_w);
  const int y_first = int(group.y) * p.row_band, y_end = min(y_first + p.row_band, p.in_h);
  device const T* g = grad_out + ulong(group.z) * ulong(p.out_h) * ulong(p.out_w) * ulong(p.channels);
  const ulong row = ulong(p.in_w) * ulong(p.channels);
  device T* to = grad_in + ((ulong(group.z) * ulong(p.in_h) + ulong(y_first)) * row + ulong(x_first) * ulong(p.channels));
  WindowSizes<Windows> sizes(w, w.columns.first(x_first), w.columns.last(x_end - 1));
  int oy_first = -1, oy_last = -1;
  for (int iy = y_first; iy < y_end; ++iy, to += row) {
    const int first = w.rows.first(iy), last = w.rows.last(iy);
    if (first == oy_first && last == oy_last) {  // neighbouring rows often lie in the same windows
      device const T* above = to - row;
      MPSX_VECTORIZE
      for (int i = 0; i < (x_end - x_first) * p.channels; ++i) to[i] = above[i];
      continue;
    }
    oy_first = first;
    oy_last = last;
    sizes.take_rows(first, last);
    spread_pixels(to, g, p, sizes, first, last, x_first, x_end, tid, threads.x);
  }
}

#define AVG_POOL(T, TAG, NAME, WINDOWS)                                              \
  MPSX_KERNEL(#NAME "_" #TAG, avg_pool<T, WINDOWS>)                                  \
  MPSX_KERNEL(#NAME "_last_" #TAG, avg_pool_last<T, WINDOWS>)                        \
  MPSX_KERNEL(#NAME "_bwd_" #TAG, avg_pool_bwd<T, WINDOWS>)                          \
  MPSX_KERNEL(#NAME "_bwd_last_" #TAG, avg_pool_bwd_last<T, WINDOWS>)
MPSX_FOR_FLOAT(AVG_POOL, avg_pool2d, Regular)
MPSX_FOR_FLOAT(AVG_POOL, adaptive_avg_pool2d, Adaptive)
