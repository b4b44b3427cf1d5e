// batch_norm forward: the moments of each channel's chunks, which batch_norm_finish merges.
#include "norm/batch_norm.h"

// One threadgroup per chunk and channel, whose teams take images in turn. Computes an approximate mean, then the sums of
// distances to it, which correct it, and of their squares. If the squares overflow, a slow pass repeats them at another
// scale. The result is their root mean square, which stays in range where their sum does not.
template <typename T>
kernel void batch_norm_stats(device float* partial [[buffer(0)]], device const T* in [[buffer(1)]],
                             constant BatchNormParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 scratch[kScratch];
  const uint chunk = g.group.x, channel = g.group.y;
  const PlaneChunk s = plane_chunk(p, chunk, channel);
  const Team team = chunk_team(p, s, g);
  const uint teams = chunk_teams(team, g);
  device const T* x = in + s.offset;
  Row<Plain<T>> row;
  float2 some = float2(0.0f), sums = float2(0.0f);
  for (uint n = team.row; n < s.last; n += teams) {
    row.begin({x + (n - s.first) * s.step}, place_of(p, s, n), s.length, p.planes.packed != 0, team);
    some += row.sample();
  }
  some = tg_reduce<CombineSum>(some, scratch, g);
  float near = some.x / some.y / kSampleScale, scale = 1.0f;
  for (uint n = team.row; n < s.last; n += teams) {
    if (s.last - s.first > teams)  // else it is held
      row.begin({x + (n - s.first) * s.step}, place_of(p, s, n), s.length, p.planes.packed != 0, team);
    sums += row.sums(Distance{near, 1.0f}, SquaredDistance{near, 1.0f});
  }
  sums = tg_reduce<CombineSum>(sums, scratch, g);
  if (!(sums.y <= FLT_MAX)) {  // element by element, which needs few registers
    scale = kSquareScale, near = some.x / some.y / kSampleScale * scale, sums = float2(0.0f);
#pragma nounroll
    for (uint n = team.row; n < s.last; n += teams) {
#pragma nounroll
      for (uint i = team.index; i < s.length; i += team.count) {
        const float d = fma(float(x[(n - s.first) * s.step + i]), scale, -near);
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
  to[quantity] = (is_infinite(near) ? near : near + off) / scale;
  to[2 * quantity] = precise::sqrt(propagating_max(fma(-sums.x, off, sums.y), 0.0f) / count) / scale;
}

// Distances from a column's mean, and their squares.
struct Deviations {
  enum : uint { kFacts = 1 };
  float at(float x, float, thread const float* mean, uint q) const {
    const float d = x - mean[0];
    return q == 0 ? d : d * d;
  }
};
// The mean and the root mean square deviation of n elements of a column, by one thread, at a scale at which squares do
// not overflow.
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
// Channels innermost: group = (tile of columns, chunk of rows).
template <typename T>
kernel void batch_norm_stats_last(device float* partial [[buffer(0)]], device const T* in [[buffer(1)]],
                                  constant BatchNormParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float mean[kFoldColumns], result[2 * kFoldColumns], scratch[kFoldThreads * kColumnPack];
  const ColumnTile t = column_tile(p, g.group.xy);
  device const T* x = in + t.offset;
  const ChannelLines<T, Deviations> lines = {x, x, t.width, mean, {}};
  for (uint c = g.index; c < t.count; c += g.count) mean[c] = 0.0f;
  tg_barrier();
  fold_tile<1>(result, scratch, lines, t, p, g);
  for (uint c = g.index; c < t.count; c += g.count)
    mean[c] = result[c] / max(float(t.rows) + (c < t.tail ? 1.0f : 0.0f), 1.0f);
  tg_barrier();
  fold_tile<2>(result, scratch, lines, t, p, g);
  for (uint c = g.index; c < t.count; c += g.count) {
    const uint rows = uint(t.rows) + (c < t.tail ? 1 : 0);
    const float count = float(rows), off = result[c] / max(count, 1.0f);
    const float squares = propagating_max(result[kFoldColumns + c] - result[c] * off, 0.0f);
    float2 moments = {is_infinite(mean[c]) ? mean[c] : mean[c] + off, precise::sqrt(squares / max(count, 1.0f))};
    if (!(squares <= FLT_MAX)) moments = column_moments_scaled(x + c, t.width, rows);
    partial[slot_of(p, t.column + c, g.group.y, 0)] = count;
    partial[slot_of(p, t.column + c, g.group.y, 1)] = moments.x;
    partial[slot_of(p, t.column + c, g.group.y, 2)] = moments.y;
  }
}

#define BATCH_NORM_STATS(T, TAG, ...)                        \
  MPSX_KERNEL("batch_norm_stats_" #TAG, batch_norm_stats<T>) \
  MPSX_KERNEL("batch_norm_stats_last_" #TAG, batch_norm_stats_last<T>)
MPSX_FOR_FLOAT(BATCH_NORM_STATS, )
