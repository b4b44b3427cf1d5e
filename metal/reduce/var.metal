// Variance, standard deviation and mean. Rows are read once. Columns are reduced in blocks of rows: each block is
// centered on its own mean, and then the moments of the blocks are combined. This reads memory once and the cache
// twice.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/loops.h"

enum : uint { kVarLines = 32, kVarMean = 1, kVarRoot = 2 };  // kVarMean and kVarRoot are bits of p.both

// All moments are moments of scale * x - pivot. The pivot is an element of the input, which keeps precision if the mean
// is far from zero. If the pivot is huge, it is replaced by 0 in split reductions: their parts store the mean at scale
// 1, and its distance from the pivot could overflow.
inline float pivot_of(float x, constant ReduceParams& p) {
  return is_nan(x) || is_infinite(x) || (p.splits > 1 && fabs(x) > 0x1p126f) ? 0.0f : x;
}

// Returns a scale for which the sum of squares neither overflows nor underflows, given the sum at scale 1. A sum of
// fewer than 2^32 squares overflows only if a deviation exceeds 2^47. If the sum is below 2^-80, all elements are
// within 2^-40 of the pivot, so they can differ from it only if the pivot is small.
inline float moment_scale(float m2, float pivot) {
  const bool vanishes = m2 < 0x1p-80f && fabs(pivot) < 0x1p-16f;
  return vanishes ? 0x1p96f : (m2 <= FLT_MAX ? 1.0f : 0x1p-96f);
}

// Returns the reciprocal of a power of two, without a division.
inline float inverse_power(float scale) { return as_type<float>(0x7F000000u - as_type<uint>(scale)); }

template <typename T>
inline void var_finish(device T* var, device T* mean, long o, Moments m, float pivot, float scale,
                       constant ReduceParams& p) {
  const float back = inverse_power(scale), v = m.m2 / max(p.count - p.p, 0.0f);
  var[o] = T(p.both & kVarRoot ? precise::sqrt(v) * back : v * back * back);
  if (p.both & kVarMean) mean[o] = T((m.mean + pivot) * back);
}

// Returns the result of one part of a split reduction. Its m2 field is the root mean square, which is always in range.
inline Moments var_part(Moments m, float scale) {
  const float back = inverse_power(scale);
  return {m.count, m.mean * back, precise::sqrt(m.m2 / max(m.count, 1.0f)) * back};
}

// The elements that one row group reduces: `size` elements from each of the lines [first, last). 32-bit counts and a
// precomputed address save registers, because the slice is needed until the moments are known to be in range.
template <typename T>
struct RowSlice {
  device const T* x;  // first element of line 0
  uint offset;        // number of elements from a 16-byte boundary to x, modulo 2^32
  uint size, first, last;
};
template <typename T>
inline RowSlice<T> row_slice(device const T* x, constant ReduceParams& p, ReduceRange r) {
  const long start = r.input + long(r.begin) * p.inner_stride;
  return {x + start, uint(start) + p.offset, uint(r.end - r.begin), uint(r.first), uint(r.last)};
}
// line_offset() without 64-bit divisions. On GPUs these are function calls, and in divergent loops they occupy uniform
// registers.
inline long short_line_offset(constant ReduceParams& p, uint line) {
  if (p.line_size[1] == 1 && p.line_size[2] == 1) return long(line) * p.line_stride[0];
  const uint rest = line / p.line_size[0], i = line - rest * p.line_size[0];
  const uint k = rest / p.line_size[1], j = rest - k * p.line_size[1];
  return long(i) * p.line_stride[0] + long(j) * p.line_stride[1] + long(k) * p.line_stride[2];
}

// Computes the moments of x - pivot. Each thread sums the deviations from a shift and their squares. The shift is the
// mean of the thread's first vector, or its first element. If these k elements are outliers among the thread's n
// elements, the sum of squares loses log2(n / k) bits.
template <typename T>
inline Moments row_moments(RowSlice<T> s, constant ReduceParams& p, float pivot, threadgroup float* scratch,
                           RowGroup group, GroupThread g) {
  enum : uint { kVector = RowReader<T>::kVector };
  const bool dense = p.inner_stride == 1;
  float shift = 0.0f, sum = 0.0f, squares = 0.0f, count = 0.0f;
  for (uint line = s.first; line < s.last; ++line) {
    const long start = short_line_offset(p, line);
    device const T* x = s.x + start;
    RowReader<T> reader(x, uint(start) + s.offset, dense ? s.size : 0, group);
    bool more = reader.load_batch();
    if (line == s.first) {
      if (more) {
#pragma unroll
        for (uint j = 0; j < kVector; ++j) shift = fma(float(reader.value(0, j)), 1.0f / float(kVector), shift);
      } else {
        shift = float(x[long(min(group.index, s.size - 1)) * p.inner_stride]);
      }
      shift = is_nan(shift) || is_infinite(shift) ? 0.0f : shift;
    }
    for (; more; reader.advance(), more = reader.load_batch()) {
      float2 part = float2(0.0f);
#pragma unroll
      for (uint k = 0; k < kUnroll; ++k) {
        if (!reader.valid(k)) continue;
#pragma unroll
        for (uint j = 0; j < kVector; ++j) {
          const float d = float(reader.value(k, j)) - shift;
          part = float2(part.x + d, fma(d, d, part.y));
        }
        count += float(kVector);
      }
      sum += part.x, squares += part.y;
    }
    for (uint e = group.index; e < (dense ? reader.scalars : s.size); e += group.count) {
      const uint i = dense ? reader.scalar_offset(e) : e;
      const float d = float(x[long(i) * p.inner_stride]) - shift;
      sum += d, squares = fma(d, d, squares), count += 1.0f;
    }
  }
  const float from_pivot = shift - pivot, own = count > 0.0f ? sum / count : 0.0f;
  const float total = float(ulong(s.last - s.first) * s.size);
  const float mean = rg_reduce<CombineSum>(fma(count, from_pivot, sum), scratch, group, g) / total;
  const float off = (from_pivot - mean) + own;
  const float m2 = propagating_max(fma(-sum, own, squares), 0.0f) + count * off * off;
  return {total, mean, rg_reduce<CombineSum>(m2, scratch, group, g)};
}

// Computes the moments of scale * x - pivot for the rare rows whose moments overflow or underflow at scale 1. The first
// pass computes the mean and the second one the squares. To use few registers, both process one element at a time.
template <typename T>
inline Moments row_moments_at_scale(RowSlice<T> s, constant ReduceParams& p, float pivot, float scale,
                                    threadgroup float* scratch, RowGroup group, GroupThread g) {
  Moments total = {float(ulong(s.last - s.first) * s.size), 0.0f, 0.0f};
#pragma nounroll
  for (uint pass = 0; pass < 2; ++pass) {
    float sum = 0.0f;
#pragma nounroll
    for (uint line = s.first; line < s.last; ++line) {
      device const T* x = s.x + short_line_offset(p, line);
#pragma nounroll
      for (uint e = group.index; e < s.size; e += group.count) {
        const float d = fma(float(x[long(e) * p.inner_stride]), scale, -pivot) - total.mean;
        sum = fma(d, pass == 0 ? 1.0f : d, sum);
      }
    }
    sum = rg_reduce<CombineSum>(sum, scratch, group, g);
    if (pass == 0)
      total.mean = sum / total.count;
    else
      total.m2 = sum;
  }
  return total;
}

template <typename T>
kernel void var_rows(device T* var [[buffer(0)]], device T* mean [[buffer(1)]], device Moments* parts [[buffer(2)]],
                     device const T* x [[buffer(3)]], constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const RowGroup group = row_group(uint(p.outputs), p.row_threads, g);
  if (group.row >= p.outputs) return;
  const ReduceRange r = reduce_row_range(p, group.row, g.group.y);
  // Use an element from the middle of the row as the pivot. The first elements are often atypical, and the error of the
  // mean grows with its distance from the pivot.
  const float pivot = pivot_of(float(x[r.input + long(p.inner_size / 2) * p.inner_stride]), p);
  const RowSlice<T> slice = row_slice(x, p, r);
  Moments total = row_moments(slice, p, pivot, scratch, group, g);
  const float scale = moment_scale(total.m2, pivot);
  if (scale != 1.0f) total = row_moments_at_scale(slice, p, pivot * scale, scale, scratch, group, g);
  if (group.index != 0) return;
  if (p.splits == 1) {
    var_finish(var, mean, r.output, total, pivot * scale, scale, p);
    return;
  }
  parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = var_part(total, scale);
  if (g.group.y == 0) parts[ulong(p.splits) * p.outputs + ulong(r.output)].mean = pivot;
}

// Computes the moments of this thread's columns, with a separate scale and pivot for each column.
template <bool SCALED, typename T>
inline void column_moments(threadgroup Moments* total, threadgroup float* block_mean, threadgroup float* block_m2,
                           threadgroup const float* pivot, threadgroup const float* scale, device const T* x,
                           constant ReduceParams& p, ReduceRange r, GroupThread g) {
  const uint n = uint(r.end - r.begin);
  for (uint c = g.index; c < n; c += g.count) total[c] = Moments{0.0f, 0.0f, 0.0f};
  for (ulong first = r.first; first < r.last; first += kVarLines) {
    const ulong last = min64(first + kVarLines, r.last);
    const float count = float(last - first);
    for (uint c = g.index; c < n; c += g.count) block_mean[c] = 0.0f, block_m2[c] = 0.0f;
    for (ulong line = first; line < last; ++line) {
      device const T* row = x + (r.input + line_offset(p, line) + long(r.begin));
      MPSX_VECTORIZE
      for (uint c = g.index; c < n; c += g.count)
        block_mean[c] += (SCALED ? float(row[c]) * scale[c] : float(row[c])) - pivot[c];
    }
    for (uint c = g.index; c < n; c += g.count) block_mean[c] /= count;
    for (ulong line = first; line < last; ++line) {
      device const T* row = x + (r.input + line_offset(p, line) + long(r.begin));
      MPSX_VECTORIZE
      for (uint c = g.index; c < n; c += g.count) {
        const float d = (SCALED ? float(row[c]) * scale[c] : float(row[c])) - pivot[c] - block_mean[c];
        block_m2[c] += d * d;
      }
    }
    for (uint c = g.index; c < n; c += g.count)
      total[c] = CombineMoments::apply(total[c], Moments{count, block_mean[c], block_m2[c]});
  }
}

template <typename T>
kernel void var_columns(device T* var [[buffer(0)]], device T* mean [[buffer(1)]], device Moments* parts [[buffer(2)]],
                        device const T* x [[buffer(3)]], constant ReduceParams& p [[buffer(4)]],
                        MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Moments total[kReduceColumns];
  threadgroup float block_mean[kReduceColumns], block_m2[kReduceColumns], pivot[kReduceColumns], scale[kReduceColumns];
  const ReduceRange r = reduce_column_range(p, g.group);
  const uint n = uint(r.end - r.begin);
  device const T* first_row = x + (r.input + long(r.begin));
  for (uint c = g.index; c < n; c += g.count) pivot[c] = pivot_of(float(first_row[c]), p);
  column_moments<false>(total, block_mean, block_m2, pivot, scale, x, p, r, g);
  bool again = false;
  for (uint c = g.index; c < n; c += g.count) {
    scale[c] = moment_scale(total[c].m2, pivot[c]);
    pivot[c] *= scale[c];
    again = again || scale[c] != 1.0f;
  }
  if (again) column_moments<true>(total, block_mean, block_m2, pivot, scale, x, p, r, g);
  for (uint c = g.index; c < n; c += g.count) {
    const long o = r.output + long(r.begin + c) * p.inner_out;
    if (p.splits == 1) {
      var_finish(var, mean, o, total[c], pivot[c], scale[c], p);
    } else {
      parts[ulong(g.group.y) * p.outputs + ulong(o)] = var_part(total[c], scale[c]);
      if (g.group.y == 0) parts[ulong(p.splits) * p.outputs + ulong(o)].mean = pivot[c] / scale[c];
    }
  }
}

// Provides the results of var_part as a matrix that columns.h can reduce, with one scale per column.
struct ScaledPartRow {
  template <uint> using Raw = Moments;
  device const Moments* x;
  threadgroup const float* scale;
  template <uint> Moments load(uint c) const { return scalar(c, 0); }
  template <uint> Moments value(Moments raw, uint, uint, uint) const { return raw; }
  Moments scalar(uint c, uint) const {
    const Moments m = x[c];
    const float root = m.m2 * scale[c];
    return {m.count, m.mean * scale[c], m.count * (root * root)};
  }
};
struct ScaledParts {
  typedef ScaledPartRow Row;
  device const Moments* x;
  ulong pitch;
  threadgroup const float* scale;
  Row row(ulong i) const { return {x + i * pitch, scale}; }
};

// Merges the parts of an output. The pivots are stored after the parts.
template <typename T>
kernel void var_merge(device T* var [[buffer(0)]], device T* mean [[buffer(1)]],
                      device const Moments* parts [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                      MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Moments total[kColumnTile], scratch[kColumnThreads];
  threadgroup float scale[kMergeColumns];
  threadgroup uint any[kScratch];
  const ulong begin = ulong(g.group.x) * kMergeColumns;
  const uint n = uint(min64(p.outputs - begin, kMergeColumns));
  device const Moments* pivots = parts + (ulong(p.splits) * p.outputs + begin);
  for (uint c = g.index; c < n; c += g.count) scale[c] = 1.0f;
  for (bool first = true;; first = false) {
    tg_barrier();
    column_reduce<CombineMoments, 1, 1>(total, scratch, ScaledParts{parts + begin, p.outputs, scale}, 0, p.splits, n,
                                        false, g);
    bool again = false;
    for (uint c = g.index; first && c < n; c += g.count) {
      scale[c] = moment_scale(total[c].m2, pivots[c].mean);
      again = again || scale[c] != 1.0f;
    }
    if (!tg_any(again, any, g)) break;
  }
  for (uint c = g.index; c < n; c += g.count)
    var_finish(var, mean, long(begin + c), total[c], pivots[c].mean * scale[c], scale[c], p);
}

#define MPSX_VAR(T, TAG, ...)                     \
  MPSX_KERNEL("var_rows_" #TAG, var_rows<T>)      \
  MPSX_KERNEL("var_columns_" #TAG, var_columns<T>) \
  MPSX_KERNEL("var_merge_" #TAG, var_merge<T>)
MPSX_FOR_FLOAT(MPSX_VAR)
