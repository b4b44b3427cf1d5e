// avg_pool2d, avg_pool3d and their adaptive forms, for small windows. Large windows and gradients use kernels that
// average along one dimension at a time (metal/resample). int64 always uses the kernels in this file, which round
// toward zero.
#include "lib/instantiate.h"
#include "pool/window.h"

struct RegularBoxes {
  RegularWindow z, y, x;
  int include_pad, divisor_override;
  explicit RegularBoxes(constant AvgPoolParams& p)
      : z(p.in[0], p.out[0], p.kernel[0], p.stride[0], p.pad[0]),
        y(p.in[1], p.out[1], p.kernel[1], p.stride[1], p.pad[1]),
        x(p.in[2], p.out[2], p.kernel[2], p.stride[2], p.pad[2]),
        include_pad(p.count_include_pad),
        divisor_override(p.divisor) {}
  int size(RegularWindow w, int o) const { return include_pad ? w.padded(o) : w.end(o) - w.begin(o); }
  int divisor(int oz, int oy, int ox) const {
    return divisor_override ? divisor_override : size(z, oz) * size(y, oy) * size(x, ox);
  }
};
struct AdaptiveBoxes {
  AdaptiveWindow z, y, x;
  explicit AdaptiveBoxes(constant AvgPoolParams& p)
      : z(p.in[0], p.out[0]), y(p.in[1], p.out[1]), x(p.in[2], p.out[2]) {}
  int divisor(int oz, int oy, int ox) const {
    return (z.end(oz) - z.begin(oz)) * (y.end(oy) - y.begin(oy)) * (x.end(ox) - x.begin(ox));
  }
};

template <typename T> struct sum_of { typedef float type; };
template <> struct sum_of<long> { typedef long type; };

// gid = (output column, output row, plane).
template <typename T, typename Boxes>
kernel void avg_pool(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                     constant AvgPoolParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  typedef typename sum_of<T>::type Sum;
  const Boxes w(p);
  const int oz = int(gid.y) / p.out[1], oy = int(gid.y) - oz * p.out[1], ox = int(gid.x);
  const int z1 = w.z.end(oz), y0 = w.y.begin(oy), y1 = w.y.end(oy), x0 = w.x.begin(ox), x1 = w.x.end(ox);
  device const T* plane = in + ulong(gid.z) * ulong(p.in[0]) * ulong(p.in[1]) * ulong(p.in[2]);
  Sum sum = Sum(0);
  for (int z = w.z.begin(oz); z < z1; ++z)
    for (int y = y0; y < y1; ++y)
      MPSX_FEW
      for (int x = x0; x < x1; ++x) sum += Sum(plane[(z * p.in[1] + y) * p.in[2] + x]);
  out[(ulong(gid.z) * ulong(p.out[0]) * ulong(p.out[1]) + gid.y) * ulong(p.out[2]) + gid.x] =
      T(sum / Sum(w.divisor(oz, oy, ox)));
}

// Averages the window of output (oz, oy, ox) for N channels, starting at channel c.
template <int N, typename T, typename Boxes>
inline void average_channels(int c, device T* to, device const T* image, Boxes w, int oz, int oy, int ox,
                             constant AvgPoolParams& p) {
  float sum[N];
  for (int j = 0; j < N; ++j) sum[j] = 0.0f;
  for (int z = w.z.begin(oz), z1 = w.z.end(oz); z < z1; ++z)
    for (int y = w.y.begin(oy), y1 = w.y.end(oy); y < y1; ++y)
      for (int x = w.x.begin(ox), x1 = w.x.end(ox); x < x1; ++x) {
        device const T* from = image + ulong((z * p.in[1] + y) * p.in[2] + x) * ulong(p.channels) + c;
        for (int j = 0; j < N; ++j) sum[j] += float(from[j]);
      }
  const float divisor = float(w.divisor(oz, oy, ox));
  for (int j = 0; j < N; ++j) to[c + j] = T(sum[j] / divisor);
}

// For channels_last, with one threadgroup per output pixel. group = (column, row, image).
template <typename T, typename Boxes>
kernel void avg_pool_last(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                          constant AvgPoolParams& p [[buffer(2)]], uint3 group [[threadgroup_position_in_grid]],
                          uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const Boxes w(p);
  const int oz = int(group.y) / p.out[1], oy = int(group.y) - oz * p.out[1], ox = int(group.x);
  device const T* image = in + ulong(group.z) * ulong(p.in[0]) * ulong(p.in[1]) * ulong(p.in[2]) * ulong(p.channels);
  const ulong row = ulong(group.z) * ulong(p.out[0]) * ulong(p.out[1]) + group.y;
  device T* to = out + (row * ulong(p.out[2]) + group.x) * ulong(p.channels);
  MPSX_EACH_CHANNEL_TILE(average_channels, to, image, w, oz, oy, ox, p)
}

#define AVG_POOL(T, TAG, NAME, BOXES)                    \
  MPSX_KERNEL(#NAME "_" #TAG, avg_pool<T, BOXES>)        \
  MPSX_KERNEL(#NAME "_last_" #TAG, avg_pool_last<T, BOXES>)
MPSX_FOR_FLOAT(AVG_POOL, avg_pool, RegularBoxes)
MPSX_FOR_FLOAT(AVG_POOL, adaptive_avg_pool, AdaptiveBoxes)
MPSX_KERNEL("avg_pool_i64", avg_pool<long, RegularBoxes>)
