// batch_norm forward: the moments of each channel's chunks, which batch_norm_finish merges.
#include "norm/batch_norm.h"

// One threadgroup per chunk and channel, whose teams take images in turn: roughly the mean, then the variance around
// that, in a pass that also finds how far it was from the mean.
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
  const float near = some.x / some.y;
  for (uint n = team.row; n < s.last; n += teams) {
    if (s.last - s.first > teams)  // else it is held
      row.begin({x + (n - s.first) * s.step}, place_of(p, s, n), s.length, p.planes.packed != 0, team);
    sums += row.sums(Distance{near}, SquaredDistance{near});
  }
  sums = tg_reduce<CombineSum>(sums, scratch, g);
  if (g.index > 0) return;
  const ulong quantity = ulong(p.channels) * p.chunks;
  device float* to = partial + (ulong(channel) * p.chunks + chunk);
  const float count = float((s.last - s.first) * s.length), off = sums.x / count;
  to[0] = count;
  to[quantity] = near + off;
  to[2 * quantity] = propagating_max(fma(-sums.x, off, sums.y), 0.0f);
}

// Distances from a column's mean, and their squares.
struct Deviations {
  enum : uint { kFacts = 1 };
  float at(float x, float, thread const float* mean, uint q) const {
    const float d = x - mean[0];
    return q == 0 ? d : d * d;
  }
};
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
    const float count = float(t.rows) + (c < t.tail ? 1.0f : 0.0f), off = result[c] / max(count, 1.0f);
    partial[slot_of(p, t.column + c, g.group.y, 0)] = count;
    partial[slot_of(p, t.column + c, g.group.y, 1)] = mean[c] + off;
    partial[slot_of(p, t.column + c, g.group.y, 2)] = result[kFoldColumns + c] - result[c] * off;
  }
}

#define BATCH_NORM_STATS(T, TAG, ...)                        \
  MPSX_KERNEL("batch_norm_stats_" #TAG, batch_norm_stats<T>) \
  MPSX_KERNEL("batch_norm_stats_last_" #TAG, batch_norm_stats_last<T>)
MPSX_FOR_FLOAT(BATCH_NORM_STATS, )
