// Variance of rows on the host driver, where a threadgroup is one thread. Rows are processed in blocks that fit in the
// L1 cache. Each block is centered on its own mean, and then the moments of the blocks are combined.
#pragma once

enum : uint { kVarBlock = 8192, kVarStep = 64 };

// Returns the moments of n elements from each of the lines [first, last). The compiler does not vectorize loops over
// strided elements, so there are no separate sums per vector lane that would bound the rounding error. Instead, these
// loops sum fewer elements at a time.
template <bool DENSE, typename T>
inline Moments block_moments(device const T* x, constant ReduceParams& p, ulong first, ulong last, uint n,
                             float pivot, float scale) {
  typedef Accumulator<CombineSum> Sum;
  const long stride = DENSE ? 1 : p.inner_stride;
  const float count = float((last - first) * n);
  const uint step = DENSE ? n : uint(kVarStep);
  float total = 0.0f, total_low = 0.0f, rests = 0.0f, rests_low = 0.0f, squares = 0.0f, squares_low = 0.0f;
  for (ulong line = first; line < last; ++line) {
    device const T* from = x + line_offset(p, line);
    for (uint b = 0; b < n; b += step) {
      const uint end = min(b + step, n);
      float sum = 0.0f;
      MPSX_REDUCE(+ : sum)
      for (uint i = b; i < end; ++i) sum += float(from[long(i) * stride]) * scale - pivot;
      Sum::accumulate(total, total_low, sum);
    }
  }
  const float near = pivot + Sum::finalize(total, total_low) / count;
  for (ulong line = first; line < last; ++line) {
    device const T* from = x + line_offset(p, line);
    for (uint b = 0; b < n; b += step) {
      const uint end = min(b + step, n);
      float rest = 0.0f, square = 0.0f;
      MPSX_REDUCE(+ : rest, square)
      for (uint i = b; i < end; ++i) {
        const float d = float(from[long(i) * stride]) * scale - near;
        rest += d;
        square += d * d;
      }
      Sum::accumulate(rests, rests_low, rest);
      Sum::accumulate(squares, squares_low, square);
    }
  }
  const float off = is_infinite(near) ? 0.0f : Sum::finalize(rests, rests_low) / count;
  const float m2 = propagating_max(Sum::finalize(squares, squares_low) - off * off * count, 0.0f);
  return {count, (near - pivot) + off, m2};
}

template <typename T>
inline Moments row_moments_at_scale(RowSlice<T> s, constant ReduceParams& p, float pivot, float scale,
                                    threadgroup float*, RowGroup, GroupThread) {
  Moments total = {0.0f, 0.0f, 0.0f};
  const uint lines = max(uint(kVarBlock) / max(s.size, 1u), 1u);
  for (uint first = s.first; first < s.last; first += min(lines, s.last - first)) {
    const uint last = first + min(lines, s.last - first);
    for (ulong b = 0; b < s.size; b += kVarBlock) {
      device const T* from = s.x + long(b) * p.inner_stride;
      const uint n = uint(min64(s.size - b, kVarBlock));
      const Moments m = p.inner_stride == 1 ? block_moments<true>(from, p, first, last, n, pivot, scale)
                                            : block_moments<false>(from, p, first, last, n, pivot, scale);
      total = CombineMoments::apply(total, m);
    }
  }
  return total;
}

template <typename T>
inline Moments row_moments(RowSlice<T> s, constant ReduceParams& p, float pivot, threadgroup float* scratch,
                           RowGroup group, GroupThread g) {
  return row_moments_at_scale(s, p, pivot, 1.0f, scratch, group, g);
}
