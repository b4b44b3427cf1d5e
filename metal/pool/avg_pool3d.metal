// avg_pool3d and adaptive_avg_pool3d of small boxes: large ones, and gradients, go along one dimension after the other
// (metal/resample). int64 is averaged here whatever the boxes, towards zero as C++ divides.
#include "lib/instantiate.h"
#include "pool/window.h"

struct RegularBoxes {
  RegularWindow z, y, x;
  int include_pad, divisor_override;
  explicit RegularBoxes(constant Pool3dParams& p)
      : z(p.in[0], p.out[0], p.kernel[0], p.stride[0], p.pad[0]),
        y(p.in[1], p.out[1], p.kernel[1], p.stride[1], p.pad[1]),
        x(p.in[2], p.out[2], p.kernel[2], p.stride[2], p.pad[2]),
        include_pad(p.count_include_pad),
        divisor_override(p.divisor) {}
  int size(RegularWindow w, int o) const { return include_pad ? w.padded(o) : w.end(o) - w.begin(o); }
  // What the sum of a box is divided by: the product of both.
  int plane_size(int oz, int oy) const { return divisor_override ? divisor_override : size(z, oz) * size(y, oy); }
  int width(int ox) const { return divisor_override ? 1 : size(x, ox); }
};
struct AdaptiveBoxes {
  AdaptiveWindow z, y, x;
  explicit AdaptiveBoxes(constant Pool3dParams& p) : z(p.in[0], p.out[0]), y(p.in[1], p.out[1]), x(p.in[2], p.out[2]) {}
  int plane_size(int oz, int oy) const { return (z.end(oz) - z.begin(oz)) * (y.end(oy) - y.begin(oy)); }
  int width(int ox) const { return x.end(ox) - x.begin(ox); }
};

template <typename T> struct sum_of { typedef float type; };
template <> struct sum_of<long> { typedef long type; };

#if !MPSX_VECTOR_BYTES
// N neighbouring boxes of the same size, S elements apart (0: `stride`): registers hold their sums.
template <int N, int S, typename T>
inline void means_inside(device T* to, device const T* from, constant Pool3dParams& p, int depth, int height,
                         typename sum_of<T>::type divisor) {
  typedef typename sum_of<T>::type Sum;
  const int step = S ? S : p.stride[2];
  Sum sum[N];
  for (int j = 0; j < N; ++j) sum[j] = Sum(0);
  for (int z = 0; z < depth; ++z)
    for (int y = 0; y < height; ++y)
      for (int k = 0; k < p.kernel[2]; ++k)
        for (int j = 0; j < N; ++j) sum[j] += Sum(from[(z * p.in[1] + y) * p.in[2] + k + j * step]);
  for (int j = 0; j < N; ++j) to[j] = T(sum[j] / divisor);
}
// How many boxes from `ox` on were done so: 0 where they reach over an edge.
template <typename T>
inline int some_inside(device T* to, device const T* from, constant Pool3dParams& p, RegularBoxes w, int ox, int end,
                       int depth, int height, typename sum_of<T>::type plane_size) {
  const int start = ox * p.stride[2] - p.pad[2], spare = p.in[2] - start - p.kernel[2];
  const int inside = start < 0 || spare < 0 ? 0 : min(end - ox, spare / p.stride[2] + 1);
  const auto divisor = plane_size * typename sum_of<T>::type(w.width(ox));
  if (inside >= 16) {
    if (p.stride[2] == 2) means_inside<16, 2>(to, from + start, p, depth, height, divisor);
    else means_inside<16, 0>(to, from + start, p, depth, height, divisor);
    return 16;
  }
  if (inside < 2) return 0;
  if (inside < 4) {
    means_inside<2, 0>(to, from + start, p, depth, height, divisor);
    return 2;
  }
  if (p.stride[2] == 2) means_inside<4, 2>(to, from + start, p, depth, height, divisor);
  else means_inside<4, 0>(to, from + start, p, depth, height, divisor);
  return 4;
}
template <typename T>
inline int some_inside(device T*, device const T*, constant Pool3dParams&, AdaptiveBoxes, int, int, int, int, float) {
  return 0;
}
#endif

// gid = (tile of a row of the result, row, plane).
template <typename T, typename Boxes>
kernel void avg_pool3d(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                       constant Pool3dParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  const Boxes w(p);
  const int oz = int(gid.y) / p.out[1], oy = int(gid.y) - oz * p.out[1], end = min(int(gid.x + 1) * kTile, p.out[2]);
  const int z0 = w.z.begin(oz), y0 = w.y.begin(oy), depth = w.z.end(oz) - z0, height = w.y.end(oy) - y0;
  typedef typename sum_of<T>::type Sum;
  const Sum plane_size = Sum(w.plane_size(oz, oy));
  device const T* from = in + ((ulong(gid.z) * ulong(p.in[0]) + ulong(z0)) * ulong(p.in[1]) + ulong(y0)) * ulong(p.in[2]);
  device T* to = out + (ulong(gid.z) * ulong(p.out[0]) * ulong(p.out[1]) + gid.y) * ulong(p.out[2]);
  for (int ox = int(gid.x) * kTile; ox < end;) {
#if !MPSX_VECTOR_BYTES
    if (const int done = some_inside(to + ox, from, p, w, ox, end, depth, height, plane_size)) {
      ox += done;
      continue;
    }
#endif
    const int begin = w.x.begin(ox), last = w.x.end(ox);
    Sum sum = Sum(0);
    for (int z = 0; z < depth; ++z)
      for (int y = 0; y < height; ++y)
        MPSX_FEW
        for (int x = begin; x < last; ++x) sum += Sum(from[(z * p.in[1] + y) * p.in[2] + x]);
    to[ox] = T(sum / (plane_size * Sum(w.width(ox))));
    ++ox;
  }
}

#define AVG_POOL3D(T, TAG, NAME, BOXES) MPSX_KERNEL(#NAME "_" #TAG, avg_pool3d<T, BOXES>)
MPSX_FOR_FLOAT(AVG_POOL3D, avg_pool3d, RegularBoxes)
MPSX_FOR_FLOAT(AVG_POOL3D, adaptive_avg_pool3d, AdaptiveBoxes)
MPSX_KERNEL("avg_pool3d_i64", avg_pool3d<long, RegularBoxes>)
