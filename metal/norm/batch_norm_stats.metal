// batch_norm forward: the moments of each channel's chunks, which batch_norm_finish merges.
#include "norm/batch_norm.h"

// One threadgroup per chunk and channel, whose teams take images in turn: roughly the mean, then the root mean square
// of distances from it, in a pass that also finds how far it was from the mean. If squares overflow, a second pass
// scales them; the root of their mean is in range, while that of their sum may not be.
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
  const float sampled = some.x / some.y, count = float((s.last - s.first) * s.length);
  const ulong quantity = ulong(p.channels) * p.chunks;
  device float* to = partial + (ulong(channel) * p.chunks + chunk);
  for (float scale = 1.0f;; scale = kSquareScale) {
    const float near = sampled / kSampleScale * scale;
    sums = float2(0.0f);
    for (uint n = team.row; n < s.last; n += teams) {
      if (s.last - s.first > teams)  // else it is held
        row.begin({x + (n - s.first) * s.step}, place_of(p, s, n), s.length, p.planes.packed != 0, team);
      sums += row.sums(Distance{near, scale}, SquaredDistance{near, scale});
    }
    sums = tg_reduce<CombineSum>(sums, scratch, g);
    if (scale == 1.0f && !(sums.y <= FLT_MAX)) continue;
    if (g.index > 0) return;
    const float off = sums.x / count;
    to[0] = count;
    to[quantity] = (is_infinite(near) ? near : near + off) / scale;
    to[2 * quantity] = precise::sqrt(propagating_max(fma(-sums.x, off, sums.y), 0.0f) / count) / scale;
    return;
  }
}

// Distances of scaled values from their column's mean, and their squares.
struct Deviations {
  enum : uint { kFacts = 1 };
  float scale;
  float at(float x, float, thread const float* mean, uint q) const {
    const float d = fma(x, scale, -mean[0]);
    return q == 0 ? d : d * d;
  }
};
// The moments of a tile's columns, of scaled values; whether squares of a column overflow. At another scale than 1 it
// is those of columns whose squares overflow at 1.
template <typename T>
inline bool tile_moments(device float* partial, device const T* x, float scale, threadgroup float* mean,
                         threadgroup float* result, threadgroup float* scratch, ColumnTile t,
                         constant BatchNormParams& p, GroupThread g) {
  const ChannelLines<T, Deviations> lines = {x, x, t.width, mean, {scale}};
  for (uint c = g.index; c < t.count; c += g.count) mean[c] = 0.0f;
  tg_barrier();
  fold_tile<1>(result, scratch, lines, t, p, g);
  for (uint c = g.index; c < t.count; c += g.count)
    mean[c] = result[c] / max(float(t.rows) + (c < t.tail ? 1.0f : 0.0f), 1.0f);
  tg_barrier();
  fold_tile<2>(result, scratch, lines, t, p, g);
  bool overflows = false;
  for (uint c = g.index; c < t.count; c += g.count) {
    device float* root = partial + slot_of(p, t.column + c, g.group.y, 2);
    if (scale != 1.0f && *root <= FLT_MAX) continue;
    const float count = float(t.rows) + (c < t.tail ? 1.0f : 0.0f), off = result[c] / max(count, 1.0f);
    const float squares = propagating_max(result[kFoldColumns + c] - result[c] * off, 0.0f);
    partial[slot_of(p, t.column + c, g.group.y, 0)] = count;
    partial[slot_of(p, t.column + c, g.group.y, 1)] = (is_infinite(mean[c]) ? mean[c] : mean[c] + off) / scale;
    *root = precise::sqrt(squares / max(count, 1.0f)) / scale;
    overflows = overflows || !(squares <= FLT_MAX);
  }
  return overflows;
}
// A call, so that the rare second turn costs the first one no registers.
template <typename T>
__attribute__((noinline)) void tile_moments_again(device float* partial, device const T* x, threadgroup float* mean,
                                                  threadgroup float* result, threadgroup float* scratch,
                                                  constant BatchNormParams& p, GroupThread g) {
  tile_moments(partial, x, kSquareScale, mean, result, scratch, column_tile(p, g.group.xy), p, g);
}
// Channels innermost: group = (tile of columns, chunk of rows).
template <typename T>
kernel void batch_norm_stats_last(device float* partial [[buffer(0)]], device const T* in [[buffer(1)]],
                                  constant BatchNormParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float mean[kFoldColumns], result[2 * kFoldColumns], scratch[kFoldThreads * kColumnPack];
  threadgroup uint any[kScratch];
  const ColumnTile t = column_tile(p, g.group.xy);
  device const T* x = in + t.offset;
  const bool overflows = tile_moments(partial, x, 1.0f, mean, result, scratch, t, p, g);
  if (tg_any(overflows, any, g)) tile_moments_again(partial, x, mean, result, scratch, p, g);
}

#define BATCH_NORM_STATS(T, TAG, ...)                        \
  MPSX_KERNEL("batch_norm_stats_" #TAG, batch_norm_stats<T>) \
  MPSX_KERNEL("batch_norm_stats_last_" #TAG, batch_norm_stats_last<T>)
MPSX_FOR_FLOAT(BATCH_NORM_STATS, )
