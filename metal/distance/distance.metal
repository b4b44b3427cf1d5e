// cdist and pdist, and their gradient, in a norm of any order.
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "distance/params.h"

constexpr constant uint kTile = MPSX_VECTOR_BYTES ? 1 : kDistanceTile;

// What a difference adds to the distance, what comes of the sum, and the derivative by a difference `d`: what is the same
// for all differences of a pair of points (`weight`: the gradient of their distance) times what is not.
struct norm_0 {
  static float part(float d, float) { return d != 0.0f ? 1.0f : 0.0f; }
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
  static float whole(float most, float) { return most; }
  static float factor(float weight, float) { return weight; }
  static float slope(float d, float distance, float) {
    return fabs(d) == distance ? norm_1::slope(d, distance, 0.0f) : 0.0f;
  }
};

// The sum that Norm::whole makes a distance.
template <typename Norm>
inline float sum_of(device const float* a, device const float* b, uint n, float p) {
  float sum = 0.0f;
  uint first = 0;
#if !MPSX_VECTOR_BYTES
  if (n <= 64) {  // a few vectors, which are added up to one before its elements are
    float sums[16];
    for (uint k = 0; k < 16; ++k) sums[k] = 0.0f;
    for (; first + 16 <= n; first += 16)
      for (uint k = 0; k < 16; ++k) sums[k] += Norm::part(a[first + k] - b[first + k], p);
    for (uint k = 0; k < 8; ++k) sums[k] += sums[k + 8];
    for (uint k = 0; k < 4; ++k) sums[k] += sums[k + 4];
    sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
    if (first == n) return sum;
  }
#endif
  MPSX_REDUCE(+ : sum)
  for (uint i = first; i < n; ++i) sum += Norm::part(a[i] - b[i], p);
  return sum;
}
template <>
inline float sum_of<norm_inf>(device const float* a, device const float* b, uint n, float) {
  float most = 0.0f;
  for (uint i = 0; i < n; ++i) most = propagating_max(most, fabs(a[i] - b[i]));
  return most;
}

// gid = (other point, point, batch).
template <typename Norm>
kernel void distance(device float* out [[buffer(0)]], device const float* a [[buffer(1)]],
                     device const float* b [[buffer(2)]], constant DistanceParams& p [[buffer(3)]],
                     uint3 gid [[thread_position_in_grid]]) {
  const ulong row = ulong(gid.z) * p.rows + gid.y;
  out[row * p.others + gid.x] =
      Norm::whole(sum_of<Norm>(a + row * p.size, b + (ulong(gid.z) * p.others + gid.x) * p.size, p.size, p.p), p.p);
}

// Where the distance of points i < j is among those of n points.
inline ulong pair_place(ulong i, ulong j, ulong n) { return n * i - i * (i + 1) / 2 + j - i - 1; }

// Every pair of points once: gid = (piece of the second points, first point).
template <typename Norm>
kernel void pair_distance(device float* out [[buffer(0)]], device const float* a [[buffer(1)]],
                          constant DistanceParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  // The first points have the most pairs: they come in turns with the last ones, so that cores get as much each.
  const uint i = gid.y % 2 ? p.rows - 1 - gid.y / 2 : gid.y / 2;
  const uint begin = max(gid.x * kTile, i + 1), end = min((gid.x + 1) * kTile, p.rows);
  if (begin >= end) return;
  float sums[kTile];
  for (uint j = begin; j < end; ++j) sums[j - begin] = sum_of<Norm>(a + ulong(i) * p.size, a + ulong(j) * p.size, p.size, p.p);
  device float* to = out + pair_place(i, begin, p.rows);
  MPSX_VECTORIZE
  for (uint j = 0; j < end - begin; ++j) to[j] = Norm::whole(sums[j], p.p);
}

// The same of points of few coordinates, which come by columns too: the lanes are second points, and no sum is spread over
// lanes. There are kAbreast points or more; the last kAbreast may overlap those before them.
#if !MPSX_VECTOR_BYTES
template <typename Norm>
kernel void pair_distance_columns(device float* out [[buffer(0)]], device const float* a [[buffer(1)]],
                                  device const float* columns [[buffer(2)]], constant DistanceParams& p [[buffer(3)]],
                                  uint3 gid [[thread_position_in_grid]]) {
  constexpr uint kAbreast = kPointsAbreast;
  const uint i = gid.y % 2 ? p.rows - 1 - gid.y / 2 : gid.y / 2;
  const uint begin = max(gid.x * kTile, i + 1), end = min((gid.x + 1) * kTile, p.rows);
  if (begin >= end) return;
  device const float* x = a + ulong(i) * p.size;
  device float* to = out + pair_place(i, begin, p.rows);
  for (uint next = begin; next < end;) {
    const uint first = min(next, p.rows - kAbreast), last = min(first + kAbreast, end);
    float sums[kAbreast];
    for (uint j = 0; j < kAbreast; ++j) sums[j] = 0.0f;
    for (uint k = 0; k < p.size; ++k) {
      device const float* y = columns + ulong(k) * p.rows + first;
      for (uint j = 0; j < kAbreast; ++j) sums[j] += Norm::part(x[k] - y[j], p.p);
    }
    for (uint j = 0; j < kAbreast; ++j) sums[j] = Norm::whole(sums[j], p.p);
    for (uint j = next; j < last; ++j) to[j - begin] = sums[j - first];
    next = last;
  }
}
#define PAIR_COLUMNS(NORM) MPSX_KERNEL("pair_distance_columns_" #NORM, pair_distance_columns<NORM>)
PAIR_COLUMNS(norm_0) PAIR_COLUMNS(norm_1) PAIR_COLUMNS(norm_2)
#endif

// What `n` neighbouring coordinates of a point, or N where that is not 0, which registers hold, get of the others.
template <typename Norm, int N>
inline void gradient_of(device float* to, device const float* grad, device const float* x, device const float* others,
                        device const float* distances, constant DistanceParams& p, ulong row, uint point, uint count) {
  const uint n = N ? uint(N) : count;
  float sum[N ? N : int(kTile)];
  for (uint i = 0; i < n; ++i) sum[i] = 0.0f;
  for (uint j = 0; j < p.others; ++j) {
    if (p.pairs && j == point) continue;  // a point and itself are no pair
    const ulong at = p.pairs ? pair_place(min(point, j), max(point, j), p.rows) : row * p.others + j;
    device const float* y = others + ulong(j) * p.size;
    const float distance = distances[at], factor = Norm::factor(grad[at], distance);
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) sum[i] += factor * Norm::slope(x[i] - y[i], distance, p.p);
  }
  for (uint i = 0; i < n; ++i) to[i] = sum[i];
}

// The gradient of the first points. gid = (piece of a row, point, batch).
template <typename Norm>
kernel void distance_bwd(device float* grad_a [[buffer(0)]], device const float* grad [[buffer(1)]],
                         device const float* a [[buffer(2)]], device const float* b [[buffer(3)]],
                         device const float* distances [[buffer(4)]], constant DistanceParams& p [[buffer(5)]],
                         uint3 gid [[thread_position_in_grid]]) {
  const uint first = gid.x * kTile, n = min(kTile, p.size - first);
  const ulong row = ulong(gid.z) * p.rows + gid.y, at = row * p.size + first;
  device const float* others = b + ulong(gid.z) * p.others * p.size + first;
  uint i = 0;
#if !MPSX_VECTOR_BYTES
  for (; i + 32 <= n; i += 32)
    gradient_of<Norm, 32>(grad_a + at + i, grad, a + at + i, others + i, distances, p, row, gid.y, 32);
  for (; i + 16 <= n; i += 16)
    gradient_of<Norm, 16>(grad_a + at + i, grad, a + at + i, others + i, distances, p, row, gid.y, 16);
#endif
  if (i < n) gradient_of<Norm, 0>(grad_a + at + i, grad, a + at + i, others + i, distances, p, row, gid.y, n - i);
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
