// Variance, standard deviation and mean. Rows are read once; of columns blocks are centred on their own mean and then
// combined (two passes over what is in the cache, one over memory).
#include "lib/compute.h"
#include "lib/instantiate.h"
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

// Of a row (or, of a split one, a part), as the mean of x - pivot. Each thread sums distances from the mean of its
// first pack, or from its first element, and their squares; where that is far from the others, this costs the squares
// log2(n / k) bits, of a thread's n elements and k of them in the shift.
template <typename T>
inline Moments row_moments(device const T* x, constant ReduceParams& p, ReduceRange r, float pivot,
                           threadgroup float* scratch, Team team, GroupThread g) {
  enum : uint { kPack = Run<T>::kPack };
  const bool dense = p.inner_stride == 1;
  const uint n = uint(r.end - r.begin);
  float shift = 0.0f, sum = 0.0f, squares = 0.0f, count = 0.0f;
  for (ulong line = r.first; line < r.last; ++line) {
    const long start = r.input + line_offset(p, line) + long(r.begin) * p.inner_stride;
    Run<T> run(x + start, uint(start) + p.offset, dense ? n : 0, team);
    bool more = run.load();
    if (line == r.first) {
      if (more) {
#pragma unroll
        for (uint j = 0; j < kPack; ++j) shift = fma(float(run.value(0, j)), 1.0f / float(kPack), shift);
      } else {
        shift = float(x[start + long(min(team.index, n - 1)) * p.inner_stride]);
      }
      shift = pivot_of(shift);
    }
    for (; more; run.advance(), more = run.load()) {
      float2 part = float2(0.0f);
#pragma unroll
      for (uint k = 0; k < kAhead; ++k) {
        if (!run.holds(k)) continue;
#pragma unroll
        for (uint j = 0; j < kPack; ++j) {
          const float d = float(run.value(k, j)) - shift;
          part = float2(part.x + d, fma(d, d, part.y));
        }
        count += float(kPack);
      }
      sum += part.x, squares += part.y;
    }
    for (uint e = team.index; e < (dense ? run.edges : n); e += team.count) {
      const float d = float(x[start + long(dense ? run.edge(e) : e) * p.inner_stride]) - shift;
      sum += d, squares = fma(d, d, squares), count += 1.0f;
    }
  }
  const float from_pivot = shift - pivot, own = count > 0.0f ? sum / count : 0.0f;
  const float total = float((r.last - r.first) * n);
  const float mean = team_reduce<CombineSum>(fma(count, from_pivot, sum), scratch, team, g) / total;
  const float off = (from_pivot - mean) + own;
  const float m2 = propagating_max(fma(-sum, own, squares), 0.0f) + count * off * off;
  return {total, mean, team_reduce<CombineSum>(m2, scratch, team, g)};
}

template <typename T>
kernel void var_rows(device T* var [[buffer(0)]], device T* mean [[buffer(1)]], device Moments* parts [[buffer(2)]],
                     device const T* x [[buffer(3)]], constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const Team team = team_of(uint(p.outputs), p.team, g);
  if (team.row >= p.outputs) return;
  const ReduceRange r = reduce_row_range(p, uint2(team.row, g.group.y));
  const float pivot = pivot_of(float(x[r.input]));
  const Moments total = row_moments(x, p, r, pivot, scratch, team, g);
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
