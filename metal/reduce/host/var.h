// Rows where a threadgroup is one thread: blocks that the first cache holds are centred on their own mean and combined.
#pragma once

enum : uint { kVarBlock = 8192 };

template <bool DENSE, typename T>
inline Moments block_moments(device const T* x, long stride, uint n, float pivot) {
  float sum = 0.0f, rest = 0.0f, squares = 0.0f;
  MPSX_REDUCE(+ : sum)
  for (uint i = 0; i < n; ++i) sum += float(x[DENSE ? long(i) : long(i) * stride]) - pivot;
  const float near = pivot + sum / float(n);
  MPSX_REDUCE(+ : rest, squares)
  for (uint i = 0; i < n; ++i) {
    const float d = float(x[DENSE ? long(i) : long(i) * stride]) - near;
    rest += d;
    squares += d * d;
  }
  const float off = rest / float(n);
  return {float(n), (near - pivot) + off, squares - rest * off};
}

template <typename T>
inline Moments row_moments(device const T* x, constant ReduceParams& p, ReduceRange r, float pivot,
                           threadgroup float*, Team, GroupThread) {
  Moments total = {0.0f, 0.0f, 0.0f};
  for (ulong line = r.first; line < r.last; ++line) {
    for (ulong b = r.begin; b < r.end; b += kVarBlock) {
      device const T* from = x + (r.input + line_offset(p, line) + long(b) * p.inner_stride);
      const uint n = uint(smaller(r.end - b, kVarBlock));
      const Moments m = p.inner_stride == 1 ? block_moments<true>(from, 1, n, pivot)
                                            : block_moments<false>(from, p.inner_stride, n, pivot);
      total = CombineMoments::apply(total, m);
    }
  }
  return total;
}
