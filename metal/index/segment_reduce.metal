// segment_reduce. Each thread reduces a few adjacent columns of one segment, in order.
#include "lib/instantiate.h"
#include "index/params.h"
#include "lib/arithmetic.h"
#include "lib/compute.h"

struct segment_sum {
  static float apply(float a, float b) { return a + b; }
};
struct segment_prod {
  static float apply(float a, float b) { return a * b; }
};
struct segment_max {
  static float apply(float a, float b) { return propagating_max(a, b); }
};
struct segment_min {
  static float apply(float a, float b) { return propagating_min(a, b); }
};

// A row has `size` elements with `inner` columns each. Segment k of `count` consists of elements [offsets[k], offsets[k
// + 1]) of the row. gid = (block of columns, segment, row), or (segment, 0, row) if there is only one column.
template <typename T, typename Op>
kernel void segment_reduce(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                           device const long* offsets [[buffer(2)]], constant SegmentReduceParams& p [[buffer(3)]],
                           uint3 gid [[thread_position_in_grid]]) {
  const bool narrow = p.inner == 1;
  const uint segment = narrow ? gid.x : gid.y;
  device const long* own = offsets + (ulong(gid.z) * (p.count + 1) + segment);
  const long begin = clamp(own[0], 0L, p.size), end = clamp(own[1], begin, p.size);
  const float length = p.mean ? float(max(own[1] - own[0], 0L)) : 1.0f;
  if (narrow) {
    device const T* x = in + ulong(gid.z) * ulong(p.size);
    float s = p.start;
    for (long i = begin; i < end; ++i) s = Op::apply(s, float(x[i]));
    if (p.mean) s = length == 0.0f ? p.empty : s / length;
    out[ulong(gid.z) * p.count + segment] = T(s);
    return;
  }
  const uint first = gid.x * kSegmentColumns, n = min(kSegmentColumns, p.inner - first);
  device const T* x = in + (ulong(gid.z) * ulong(p.size) * p.inner + first);
  float sum[kSegmentColumns];
  for (uint c = 0; c < n; ++c) sum[c] = p.start;
  for (long i = begin; i < end; ++i) {
    device const T* row = x + ulong(i) * p.inner;
    MPSX_VECTORIZE
    for (uint c = 0; c < n; ++c) sum[c] = Op::apply(sum[c], float(row[c]));
  }
  device T* to = out + ((ulong(gid.z) * p.count + segment) * p.inner + first);
  for (uint c = 0; c < n; ++c) to[c] = T(p.mean && length == 0.0f ? p.empty : sum[c] / length);
}

#define SEGMENT(T, TAG, NAME) MPSX_KERNEL("segment_reduce_" #NAME "_" #TAG, segment_reduce<T, segment_##NAME>)
MPSX_FOR_FLOAT(SEGMENT, sum)
MPSX_FOR_FLOAT(SEGMENT, prod)
MPSX_FOR_FLOAT(SEGMENT, max)
MPSX_FOR_FLOAT(SEGMENT, min)
