// Variance, standard deviation and mean: blocks are centred on their own mean and then combined (two passes over what
// is in the cache, one over memory).
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "lib/row.h"
#include "reduce/loops.h"

enum : uint { kVarLines = 32, kVarMean = 1, kVarRoot = 2 };  // the last two: bits of p.both

// Moments are those of x - pivot, with an element as the pivot: a mean far from zero then costs no digits.
inline float pivot_of(float x) { return is_nan(x) || is_infinite(x) ? 0.0f : x; }

template <typename T>
inline void var_finish(device T* var, device T* mean, long o, Moments m, float pivot, constant ReduceParams& p) {
  const bool full = is_nan(m.m2) && !is_nan(m.mean) && !is_infinite(m.mean);  // inf - inf of finite elements
  const float v = full ? INFINITY : m.m2 / max(p.count - p.p, 0.0f);
  var[o] = T(p.both & kVarRoot ? precise::sqrt(v) : v);
  if (p.both & kVarMean) mean[o] = T(m.mean + pivot);
}

// This thread's share of n elements, no more than its team holds, as distances from the pivot.
template <typename T>
inline Moments held_moments(thread Row<Plain<T>>& row, float pivot) {
  const float count = float(row.own()), divisor = max(count, 1.0f);
  const float near = pivot + row.sum(Distance{pivot}) / divisor;
  const float2 rest = row.sums(Distance{near}, SquaredDistance{near});
  const float off = rest.x / divisor;
  return {count, (near - pivot) + off, rest.y - rest.x * off};
}
// Of the n elements of a team's threads: the means' mean, and then the squares around it, which also finds what
// rounding made of that. Combined two by two, moments would cost a division each time.
inline Moments team_moments(Moments own, float n, threadgroup float* scratch, threadgroup float2* scratch2, Team team,
                            GroupThread g) {
  const float share = own.count / n;
  const float near = team_reduce<CombineSum>(own.mean * share, scratch, team, g), d = own.mean - near;
  const float2 rest = team_reduce<CombineSum>(float2(d * share, own.m2 + d * d * own.count), scratch2, team, g);
  return {n, near + rest.x, rest.y - rest.x * rest.x * n};
}
template <typename T>
inline Moments strided_moments(device const T* x, long stride, uint n, float pivot, Team team) {
  const uint own = n > team.index ? (n - team.index + team.count - 1) / team.count : 0;  // elements of this thread
  float sum = 0.0f, squares = 0.0f;
  for (uint i = team.index; i < n; i += team.count) sum += float(x[long(i) * stride]) - pivot;
  const float mean = own ? sum / float(own) : 0.0f;
  for (uint i = team.index; i < n; i += team.count) {
    const float d = float(x[long(i) * stride]) - pivot - mean;
    squares += d * d;
  }
  return {float(own), mean, squares};
}

template <typename T>
kernel void var_rows(device T* var [[buffer(0)]], device T* mean [[buffer(1)]], device Moments* parts [[buffer(2)]],
                     device const T* x [[buffer(3)]], constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  threadgroup float2 scratch2[kScratch];
  const Team team = team_of(uint(p.outputs), p.team, g);
  if (team.row >= p.outputs) return;
  const ReduceRange r = reduce_row_range(p, uint2(team.row, g.group.y));
  const uint block = Row<Plain<T>>::held_by(team);
  Row<Plain<T>> row;
  float pivot = 0.0f;
  Moments total = {0.0f, 0.0f, 0.0f};
  for (ulong line = r.first; line < r.last; ++line) {
    const long start = r.input + line_offset(p, line);
    for (ulong b = r.begin; b < r.end; b += block) {
      const uint n = uint(smaller(r.end - b, block));
      const long at = start + long(b) * p.inner_stride;
      const bool dense = p.inner_stride == 1, first = line == r.first && b == r.begin;
      if (dense) row.begin({x + at}, uint(ulong(at) + p.offset), n, true, team);
      if (first) pivot = pivot_of(float(x[r.input]));  // after the row is on its way
      const Moments m = dense ? held_moments(row, pivot) : strided_moments(x + at, p.inner_stride, n, pivot, team);
      total = first ? m : CombineMoments::apply(total, m);
    }
  }
  total = team_moments(total, float((r.last - r.first) * (r.end - r.begin)), scratch, scratch2, team, g);
  if (team.index != 0) return;
  if (p.splits == 1) {
    var_finish(var, mean, r.output, total, pivot, p);
    return;
  }
  parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = total;
  if (g.group.y == 0) parts[ulong(p.splits) * p.outputs + ulong(r.output)].mean = pivot;
}

template <typename T>
kernel void var_columns(device T* var [[buffer(0)]], device T* mean [[buffer(1)]], device Moments* parts [[buffer(2)]],
                        device const T* x [[buffer(3)]], constant ReduceParams& p [[buffer(4)]],
                        MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Moments total[kReduceColumns];
  threadgroup float block_mean[kReduceColumns], block_m2[kReduceColumns], pivot[kReduceColumns];
  const ReduceRange r = reduce_column_range(p, g.group);
  const uint n = uint(r.end - r.begin);
  device const T* top = x + (r.input + long(r.begin));
  for (uint c = g.index; c < n; c += g.count) total[c] = Moments{0.0f, 0.0f, 0.0f}, pivot[c] = pivot_of(float(top[c]));
  for (ulong first = r.first; first < r.last; first += kVarLines) {
    const ulong last = smaller(first + kVarLines, r.last);
    const float count = float(last - first);
    for (uint c = g.index; c < n; c += g.count) block_mean[c] = 0.0f, block_m2[c] = 0.0f;
    for (ulong line = first; line < last; ++line) {
      device const T* row = x + (r.input + line_offset(p, line) + long(r.begin));
      MPSX_VECTORIZE
      for (uint c = g.index; c < n; c += g.count) block_mean[c] += float(row[c]) - pivot[c];
    }
    for (uint c = g.index; c < n; c += g.count) block_mean[c] /= count;
    for (ulong line = first; line < last; ++line) {
      device const T* row = x + (r.input + line_offset(p, line) + long(r.begin));
      MPSX_VECTORIZE
      for (uint c = g.index; c < n; c += g.count) {
        const float d = float(row[c]) - pivot[c] - block_mean[c];
        block_m2[c] += d * d;
      }
    }
    for (uint c = g.index; c < n; c += g.count)
      total[c] = CombineMoments::apply(total[c], Moments{count, block_mean[c], block_m2[c]});
  }
  for (uint c = g.index; c < n; c += g.count) {
    const long o = r.output + long(r.begin + c) * p.inner_out;
    if (p.splits == 1) {
      var_finish(var, mean, o, total[c], pivot[c], p);
    } else {
      parts[ulong(g.group.y) * p.outputs + ulong(o)] = total[c];
      if (g.group.y == 0) parts[ulong(p.splits) * p.outputs + ulong(o)].mean = pivot[c];
    }
  }
}

// The splits of each output become its result. After them the parts hold the pivots.
template <typename T>
kernel void var_merge(device T* var [[buffer(0)]], device T* mean [[buffer(1)]],
                      device const Moments* parts [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                      MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Moments total[kFoldColumns], scratch[kFoldThreads];
  const ulong begin = ulong(g.group.x) * kMergeColumns;
  const uint n = uint(smaller(p.outputs - begin, kMergeColumns));
  fold_columns<CombineMoments, 1, 1>(total, scratch, PartialLines<Moments>{parts + begin, p.outputs}, 0, p.splits, n,
                                     g);
  for (uint c = g.index; c < n; c += g.count)
    var_finish(var, mean, long(begin + c), total[c], parts[ulong(p.splits) * p.outputs + begin + c].mean, p);
}

#define MPSX_VAR(T, TAG, ...)                     \
  MPSX_KERNEL("var_rows_" #TAG, var_rows<T>)      \
  MPSX_KERNEL("var_columns_" #TAG, var_columns<T>) \
  MPSX_KERNEL("var_merge_" #TAG, var_merge<T>)
MPSX_FOR_FLOAT(MPSX_VAR)
