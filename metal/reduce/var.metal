// Variance, standard deviation and mean: blocks are centred on their own mean and then combined (two passes over what
// is in the cache, one over memory).
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/loops.h"

enum : uint { kVarBlock = 4096, kVarLines = 32, kVarMean = 1, kVarRoot = 2 };  // the last two: bits of p.both

// Moments are those of x - pivot, with an element as the pivot: a mean far from zero then costs no digits.
inline float pivot_of(float x) { return is_nan(x) || is_infinite(x) ? 0.0f : x; }

template <typename T>
inline void var_finish(device T* var, device T* mean, long o, Moments m, float pivot, constant ReduceParams& p) {
  const float v = m.m2 / max(p.count - p.p, 0.0f);
  var[o] = T(p.both & kVarRoot ? precise::sqrt(v) : v);
  if (p.both & kVarMean) mean[o] = T(m.mean + pivot);
}

template <typename T>
inline Moments row_block(device const T* x, long stride, float pivot, uint n, GroupThread g) {
  const uint own = n > g.index ? (n - g.index + g.count - 1) / g.count : 0;  // elements of this thread
  float sum = 0.0f, squares = 0.0f;
  if (stride == 1) {
    MPSX_REDUCE(+ : sum)
    for (uint i = g.index; i < n; i += g.count) sum += float(x[i]) - pivot;
    const float mean = own ? sum / float(own) : 0.0f;
    MPSX_REDUCE(+ : squares)
    for (uint i = g.index; i < n; i += g.count) {
      const float d = float(x[i]) - pivot - mean;
      squares += d * d;
    }
    return {float(own), mean, squares};
  }
  for (uint i = g.index; i < n; i += g.count) sum += float(x[long(i) * stride]) - pivot;
  const float mean = own ? sum / float(own) : 0.0f;
  for (uint i = g.index; i < n; i += g.count) {
    const float d = float(x[long(i) * stride]) - pivot - mean;
    squares += d * d;
  }
  return {float(own), mean, squares};
}

template <typename T>
kernel void var_rows(device T* var [[buffer(0)]], device T* mean [[buffer(1)]], device Moments* parts [[buffer(2)]],
                     device const T* x [[buffer(3)]], constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Moments scratch[kScratch];
  const ReduceRange r = reduce_row_range(p, g.group.xy);
  const float pivot = pivot_of(float(x[r.input]));
  Moments total = {0.0f, 0.0f, 0.0f};
  for (ulong line = r.first; line < r.last; ++line) {
    device const T* row = x + (r.input + line_offset(p, line));
    for (ulong b = r.begin; b < r.end; b += kVarBlock) {
      const uint n = uint(smaller(r.end - b, kVarBlock));
      total = CombineMoments::apply(total, row_block(row + long(b) * p.inner_stride, p.inner_stride, pivot, n, g));
    }
  }
  total = tg_moments(total, scratch, g);
  if (g.index != 0) return;
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

// A thread per output. After the splits the parts hold the pivots.
template <typename T>
kernel void var_merge(device T* var [[buffer(0)]], device T* mean [[buffer(1)]],
                      device const Moments* parts [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                      uint o [[thread_position_in_grid]]) {
  Moments total = parts[o];
  for (uint s = 1; s < p.splits; ++s) total = CombineMoments::apply(total, parts[ulong(s) * p.outputs + o]);
  var_finish(var, mean, long(o), total, parts[ulong(p.splits) * p.outputs + o].mean, p);
}

#define MPSX_VAR(T, TAG, ...)                     \
  MPSX_KERNEL("var_rows_" #TAG, var_rows<T>)      \
  MPSX_KERNEL("var_columns_" #TAG, var_columns<T>) \
  MPSX_KERNEL("var_merge_" #TAG, var_merge<T>)
MPSX_FOR_FLOAT(MPSX_VAR)
