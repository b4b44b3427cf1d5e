// cdist and pdist for norms of any order, and their gradients.
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "distance/params.h"

// A norm. part(d, p) is what a coordinate difference d contributes to the sum, and whole(sum, p) is the distance. The
// gradient of d is factor() * slope(), where factor() depends only on the pair of points. `weight` is the gradient of
// the distance.
struct norm_0 {
  static float part(float d, float) { return is_nan(d) ? d : (d != 0.0f ? 1.0f : 0.0f); }
  static float whole(float sum, float) { return sum; }
};
struct norm_1 {
  static float part(float d, float) { return fabs(d); }
  static float whole(float sum, float) { return sum; }
  static float factor(float weight, float) { return weight; }
  static float slope(float d, float, float) { return d > 0.0f ? 1.0f : (d < 0.0f ? -1.0f : 0.0f); }
};
struct norm_2 {
  static float part(float d, float) { return d * d; }
  static float whole(float sum, float) { return precise::sqrt(sum); }
  static float factor(float weight, float distance) { return distance == 0.0f ? 0.0f : weight / distance; }
  static float slope(float d, float, float) { return d; }
};
struct norm_p {
  static float part(float d, float p) { return precise::pow(fabs(d), p); }
  static float whole(float sum, float p) { return precise::pow(sum, 1.0f / p); }
  static float factor(float weight, float) { return weight; }
  static float slope(float d, float distance, float p) {
    if (distance == 0.0f || d == 0.0f) return 0.0f;
    return copysign(precise::pow(fabs(d), p - 1.0f) / precise::pow(distance, p - 1.0f), d);
  }
};
struct norm_inf {
  static float whole(float largest, float) { return largest; }
  static float factor(float weight, float) { return weight; }
  static float slope(float d, float distance, float) {
    return fabs(d) == distance ? norm_1::slope(d, distance, 0.0f) : 0.0f;
  }
};

// Returns the sum of Norm::part over all coordinates.
template <typename Norm>
inline float sum_of(device const float* a, device const float* b, uint n, float p) {
  float sum = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint i = 0; i < n; ++i) sum += Norm::part(a[i] - b[i], p);
  return sum;
}
template <>
inline float sum_of<norm_inf>(device const float* a, device const float* b, uint n, float) {
  float largest = 0.0f;
  for (uint i = 0; i < n; ++i) largest = propagating_max(largest, fabs(a[i] - b[i]));
  return largest;
}

// gid = (point in b, point in a, batch).
template <typename Norm>
kernel void distance(device float* out [[buffer(0)]], device const float* a [[buffer(1)]],
                     device const float* b [[buffer(2)]], constant DistanceParams& p [[buffer(3)]],
                     uint3 gid [[thread_position_in_grid]]) {
  const ulong row = ulong(gid.z) * p.rows + gid.y;
  out[row * p.others + gid.x] =
      Norm::whole(sum_of<Norm>(a + row * p.size, b + (ulong(gid.z) * p.others + gid.x) * p.size, p.size, p.p), p.p);
}

// Returns the index of the pair (i, j), with i < j, in the output of pdist.
inline ulong pair_index(ulong i, ulong j, ulong n) { return n * i - i * (i + 1) / 2 + j - i - 1; }

// Computes each pair once. gid = (second point j, first point i).
template <typename Norm>
kernel void pair_distance(device float* out [[buffer(0)]], device const float* a [[buffer(1)]],
                          constant DistanceParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  const uint i = gid.y, j = gid.x;
  if (j <= i) return;
  out[pair_index(i, j, p.rows)] =
      Norm::whole(sum_of<Norm>(a + ulong(i) * p.size, a + ulong(j) * p.size, p.size, p.p), p.p);
}

// Computes N adjacent coordinates of a point's gradient by summing over all other points.
template <typename Norm, uint N>
inline void gradient_of(device float* to, device const float* grad, device const float* x, device const float* others,
                        device const float* distances, constant DistanceParams& p, ulong row, uint point) {
  float sum[N];
  for (uint i = 0; i < N; ++i) sum[i] = 0.0f;
  ulong at = p.pairs ? point - 1 : row * p.others;  // for pdist, the index of the pair (0, point)
  for (uint j = 0; j < p.others; ++j) {
    if (p.pairs && j == point) {  // skip the point itself
      at = pair_index(point, point + 1, p.rows);
      continue;
    }
    device const float* y = others + ulong(j) * p.size;
    const float distance = distances[at], factor = Norm::factor(grad[at], distance);
    for (uint i = 0; i < N; ++i) sum[i] += factor * Norm::slope(x[i] - y[i], distance, p.p);
    at += p.pairs && j < point ? p.others - j - 2 : 1;
  }
  for (uint i = 0; i < N; ++i) to[i] = sum[i];
}

// Computes the gradient of a. gid = (tile of coordinates, point, batch).
template <typename Norm>
kernel void distance_bwd(device float* grad_a [[buffer(0)]], device const float* grad [[buffer(1)]],
                         device const float* a [[buffer(2)]], device const float* b [[buffer(3)]],
                         device const float* distances [[buffer(4)]], constant DistanceParams& p [[buffer(5)]],
                         uint3 gid [[thread_position_in_grid]]) {
  const uint first = gid.x * kDistanceTile, end = min(first + kDistanceTile, p.size);
  const ulong row = ulong(gid.z) * p.rows + gid.y;
  device float* to = grad_a + row * p.size;
  device const float* x = a + row * p.size;
  device const float* others = b + ulong(gid.z) * p.others * p.size;
  if (first + kDistanceTile <= p.size)
    return gradient_of<Norm, kDistanceTile>(to + first, grad, x + first, others + first, distances, p, row, gid.y);
  for (uint i = first; i < end; ++i) gradient_of<Norm, 1>(to + i, grad, x + i, others + i, distances, p, row, gid.y);
}

#define DISTANCE(NORM)                                          \
  MPSX_KERNEL("distance_" #NORM, distance<NORM>)                \
  MPSX_KERNEL("pair_distance_" #NORM, pair_distance<NORM>)
#define DISTANCE_BWD(NORM) MPSX_KERNEL("distance_bwd_" #NORM, distance_bwd<NORM>)
DISTANCE(norm_0)
DISTANCE(norm_1)
DISTANCE(norm_2)
DISTANCE(norm_p)
DISTANCE(norm_inf)
DISTANCE_BWD(norm_1)
DISTANCE_BWD(norm_2)
DISTANCE_BWD(norm_p)
DISTANCE_BWD(norm_inf)
