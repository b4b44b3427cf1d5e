// batch_norm forward: computes the statistics of the chunks of each channel. batch_norm_finish merges them.
#include "norm/batch_norm.h"

// Each row group processes one image at a time. The kernel estimates the mean from a sample. It then sums the
// deviations from this estimate and their squares, and computes the exact mean and the variance from these sums. If the
// squares overflow, a slower pass recomputes the sums from scaled values. The kernel stores the root mean square
// deviation, which is in range even if the sum of squares is not. There is one threadgroup per chunk and channel.
template <typename T>
kernel void batch_norm_stats(device float* partial [[buffer(0)]], device const T* in [[buffer(1)]],
                             constant BatchNormParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  const uint chunk = g.group.x, channel = g.group.y;
  const PlaneChunk s = plane_chunk(p, chunk, channel);
  const RowGroup group = chunk_row_group(p, s, g);
  const uint groups = row_groups(group, g);
  device const T* x = in + s.offset;
  RegisterRow<Loader<T>> row;
  float2 samples = float2(0.0f), sums = float2(0.0f);
  for (uint n = group.row; n < s.last; n += groups) {
    row.open({x + (n - s.first) * s.step}, image_offset(p, s, n), s.length, p.planes.vectorized != 0, group);
    samples += sample(row);
  }
  samples = tg_reduce<CombineSum>(samples, scratch, g);
  float center = samples.x / samples.y / kSampleScale, scale = 1.0f;
  for (uint n = group.row; n < s.last; n += groups) {
    if (s.last - s.first > groups)  // a single image is still in registers
      row.open({x + (n - s.first) * s.step}, image_offset(p, s, n), s.length, p.planes.vectorized != 0, group);
    sums += row.sums(Deviation{center, 1.0f}, SquaredDeviation{center, 1.0f});
  }
  sums = tg_reduce<CombineSum>(sums, scratch, g);
  if (!(sums.y <= FLT_MAX)) {  // process one element at a time, which needs few registers
    scale = kSquareScale, center = samples.x / samples.y / kSampleScale * scale, sums = float2(0.0f);
#pragma nounroll
    for (uint n = group.row; n < s.last; n += groups) {
#pragma nounroll
      for (uint i = group.index; i < s.length; i += group.count) {
        const float d = fma(float(x[(n - s.first) * s.step + i]), scale, -center);
        sums += float2(d, d * d);
      }
    }
    sums = tg_reduce<CombineSum>(sums, scratch, g);
  }
  if (g.index > 0) return;
  const float count = float((s.last - s.first) * s.length), off = sums.x / count;
  const ulong quantity = ulong(p.channels) * p.chunks;
  device float* to = partial + (ulong(channel) * p.chunks + chunk);
  to[0] = count;
  to[quantity] = (is_infinite(center) ? center : center + off) / scale;
  to[2 * quantity] = precise::sqrt(propagating_max(fma(-sums.x, off, sums.y), 0.0f) / count) / scale;
}

// q = 0 is the deviation from the column's mean, and q = 1 is its square.
struct ColumnDeviation {
  threadgroup const float* mean;
  float at(Pair x, uint c, uint q) const {
    const float d = x.a - mean[c];
    return q == 0 ? d : d * d;
  }
};
// Computes the mean and the root mean square deviation of n elements of a column in one thread. The values are scaled
// so that their squares do not overflow.
template <typename T>
inline float2 column_moments_scaled(device const T* x, ulong pitch, uint n) {
  float sum = 0.0f, squares = 0.0f;
#pragma nounroll
  for (uint i = 0; i < n; ++i) sum = fma(float(x[i * pitch]), kSquareScale, sum);
  const float mean = sum / float(n);
#pragma nounroll
  for (uint i = 0; i < n; ++i) {
    const float d = fma(float(x[i * pitch]), kSquareScale, -mean);
    squares = fma(d, d, squares);
  }
  return float2(mean, precise::sqrt(squares / float(n))) / kSquareScale;
}
// Computes the statistics of a channels-last batch. group = (tile of columns, chunk of rows).
template <typename T>
kernel void batch_norm_stats_last(device float* partial [[buffer(0)]], device const T* in [[buffer(1)]],
                                  constant BatchNormParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float mean[kColumnTile], result[2 * kColumnTile], scratch[kColumnThreads * kColumnVector];
  const ColumnTile t = column_tile(p, g.group.xy);
  const auto matrix = tile_matrix(in, in, t, ColumnDeviation{mean});
  for (uint c = g.index; c < t.count; c += g.count) mean[c] = 0.0f;
  tg_barrier();
  reduce_tile<1>(result, scratch, matrix, t, p, g);
  for (uint c = g.index; c < t.count; c += g.count)
    mean[c] = result[c] / max(float(t.rows) + (c < t.tail ? 1.0f : 0.0f), 1.0f);
  tg_barrier();
  reduce_tile<2>(result, scratch, matrix, t, p, g);
  for (uint c = g.index; c < t.count; c += g.count) {
    const uint rows = uint(t.rows) + (c < t.tail ? 1 : 0);
    const float count = float(rows), off = result[c] / max(count, 1.0f);
    const float squares = propagating_max(result[kColumnTile + c] - result[c] * off, 0.0f);
    float2 moments = {is_infinite(mean[c]) ? mean[c] : mean[c] + off, precise::sqrt(squares / max(count, 1.0f))};
    if (!(squares <= FLT_MAX)) moments = column_moments_scaled(in + t.offset + c, t.width, rows);
    partial[slot_of(p, t.column + c, g.group.y, 0)] = count;
    partial[slot_of(p, t.column + c, g.group.y, 1)] = moments.x;
    partial[slot_of(p, t.column + c, g.group.y, 2)] = moments.y;
  }
}

#define BATCH_NORM_STATS(T, TAG, ...)                        \
  MPSX_KERNEL("batch_norm_stats_" #TAG, batch_norm_stats<T>) \
  MPSX_KERNEL("batch_norm_stats_last_" #TAG, batch_norm_stats_last<T>)
MPSX_FOR_FLOAT(BATCH_NORM_STATS, )
