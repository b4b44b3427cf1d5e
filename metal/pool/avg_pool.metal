// Average pooling over regular (avg_pool2d) and adaptive windows. Backwards gather: an input element adds up the windows
// that hold it, in order.
#include "lib/instantiate.h"
#include "pool/window.h"

struct Regular {
  RegularWindow rows, columns;
  int include_pad, divisor_override;
  explicit Regular(constant Pool2dParams& p)
      : rows(p.in_h, p.out_h, p.kernel_h, p.stride_h, p.pad_h),
        columns(p.in_w, p.out_w, p.kernel_w, p.stride_w, p.pad_w),
        include_pad(p.count_include_pad),
        divisor_override(p.divisor) {}
  float divisor(int oy, int ox) const {
    if (divisor_override) return float(divisor_override);
    if (include_pad) return float(rows.padded(oy) * columns.padded(ox));
    return float((rows.end(oy) - rows.begin(oy)) * (columns.end(ox) - columns.begin(ox)));
  }
};

struct Adaptive {
  AdaptiveWindow rows, columns;
  explicit Adaptive(constant Pool2dParams& p) : rows(p.in_h, p.out_h), columns(p.in_w, p.out_w) {}
  float divisor(int oy, int ox) const {
    return float((rows.end(oy) - rows.begin(oy)) * (columns.end(ox) - columns.begin(ox)));
  }
};

// gid = (output x, output y, plane).
template <typename T, typename Windows>
kernel void avg_pool(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant Pool2dParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const Windows w(p);
  const int oy = int(gid.y), ox = int(gid.x);
  device const T* x = in + ulong(gid.z) * ulong(p.in_h) * ulong(p.in_w);
  const int x_first = w.columns.begin(ox), x_end = w.columns.end(ox);
  float sum = 0.0f;
  for (int iy = w.rows.begin(oy), end = w.rows.end(oy); iy < end; ++iy) {
    device const T* row = x + ulong(iy) * ulong(p.in_w);
    MPSX_REDUCE(+ : sum)
    for (int ix = x_first; ix < x_end; ++ix) sum += float(row[ix]);
  }
  out[(ulong(gid.z) * ulong(p.out_h) + gid.y) * ulong(p.out_w) + gid.x] = T(sum / w.divisor(oy, ox));
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
  const float divisor = w.divisor(oy, ox);
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

// gid = (input x, input y, plane).
template <typename T, typename Windows>
kernel void avg_pool_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                         constant Pool2dParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const Windows w(p);
  const int iy = int(gid.y), ix = int(gid.x);
  device const T* g = grad_out + ulong(gid.z) * ulong(p.out_h) * ulong(p.out_w);
  const int ox_first = w.columns.first(ix), ox_last = w.columns.last(ix);
  float sum = 0.0f;
  for (int oy = w.rows.first(iy), end = w.rows.last(iy); oy < end; ++oy)
    for (int ox = ox_first; ox < ox_last; ++ox) sum += float(g[oy * p.out_w + ox]) / w.divisor(oy, ox);
  grad_in[(ulong(gid.z) * ulong(p.in_h) + gid.y) * ulong(p.in_w) + gid.x] = T(sum);
}

// group = (input x, input y, image).
template <typename T, typename Windows>
kernel void avg_pool_bwd_last(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                              constant Pool2dParams& p [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],
                              uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const Windows w(p);
  const int iy = int(group.y), ix = int(group.x);
  const ulong image = ulong(group.z) * ulong(p.out_h);
  device T* to = grad_in + ((ulong(group.z) * ulong(p.in_h) + group.y) * ulong(p.in_w) + group.x) * ulong(p.channels);
  const int ox_first = w.columns.first(ix), ox_last = w.columns.last(ix);
  for (int c = int(tid) * kTile; c < p.channels; c += int(threads.x) * kTile) {
    const int count = min(kTile, p.channels - c);
    float sum[kTile];
    for (int j = 0; j < count; ++j) sum[j] = 0.0f;
    for (int oy = w.rows.first(iy), end = w.rows.last(iy); oy < end; ++oy) {
      for (int ox = ox_first; ox < ox_last; ++ox) {
        const float divisor = w.divisor(oy, ox);
        device const T* from = grad_out + ((image + ulong(oy)) * ulong(p.out_w) + ulong(ox)) * ulong(p.channels) + c;
        MPSX_VECTORIZE
        for (int j = 0; j < count; ++j) sum[j] += float(from[j]) / divisor;
      }
    }
    for (int j = 0; j < count; ++j) to[c + j] = T(sum[j]);
  }
}

#define AVG_POOL(T, TAG, NAME, WINDOWS)                                              \
  MPSX_KERNEL(#NAME "_" #TAG, avg_pool<T, WINDOWS>)                                  \
  MPSX_KERNEL(#NAME "_last_" #TAG, avg_pool_last<T, WINDOWS>)                        \
  MPSX_KERNEL(#NAME "_bwd_" #TAG, avg_pool_bwd<T, WINDOWS>)                          \
  MPSX_KERNEL(#NAME "_bwd_last_" #TAG, avg_pool_bwd_last<T, WINDOWS>)
MPSX_FOR_FLOAT(AVG_POOL, avg_pool2d, Regular)
MPSX_FOR_FLOAT(AVG_POOL, adaptive_avg_pool2d, Adaptive)
