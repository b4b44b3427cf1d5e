// Columns where a threadgroup is one thread: four lines at a time, vectorized along them. Where there are fewer lines
// the last one is repeated, and not counted.
#pragma once

enum : uint { kLineBlock = 32 };

// Neither function is inlined, since many kernels of a file have the same lines.

// One of a few columns, which make no vector: four lines at a time, whose results do not wait for each other.
template <typename Combine, typename A, typename Lines>
__attribute__((noinline)) static A fold_column(Lines lines, ulong first, ulong last, uint c, uint q) {
  A total = Identity<Combine, A>::value(), low = A{};
  for (ulong from = first; from < last; from += kLineBlock) {
    const ulong to = smaller(from + kLineBlock, last);
    A part[4];
    for (uint k = 0; k < 4; ++k) part[k] = Identity<Combine, A>::value();
    ulong line = from;
    for (; line + 4 <= to; line += 4) {
#pragma unroll
      for (uint k = 0; k < 4; ++k) part[k] = Combine::apply(part[k], lines.line(line + k).one(c, q));
    }
    for (; line < to; ++line) part[0] = Combine::apply(part[0], lines.line(line).one(c, q));
    Fold<Combine>::add(total, low, Combine::apply(Combine::apply(part[0], part[1]), Combine::apply(part[2], part[3])));
  }
  return Fold<Combine>::settle(total, low);
}

template <typename Combine, uint Q, typename A, typename Lines>
__attribute__((noinline)) static void fold_lines(threadgroup A* result, Lines lines, ulong first, ulong last, uint n) {
  if (n <= 4) {
    for (uint i = 0; i < Q * n; ++i)
      result[i / n * kFoldColumns + i % n] = fold_column<Combine, A>(lines, first, last, i % n, i / n);
    return;
  }
  A low[Q * kFoldColumns], block[Q * kFoldColumns];
  for (uint q = 0; q < Q * kFoldColumns; q += kFoldColumns)
    for (uint c = 0; c < n; ++c) result[q + c] = Identity<Combine, A>::value(), low[q + c] = A{};
  for (ulong from = first; from < last; from += kLineBlock) {
    const ulong to = smaller(from + kLineBlock, last);
    for (uint q = 0; q < Q * kFoldColumns; q += kFoldColumns)
      for (uint c = 0; c < n; ++c) block[q + c] = Identity<Combine, A>::value();
    for (ulong line = from; line < to; line += 4) {
      const auto l0 = lines.line(line), l1 = lines.line(smaller(line + 1, to - 1));
      const auto l2 = lines.line(smaller(line + 2, to - 1)), l3 = lines.line(smaller(line + 3, to - 1));
      const uint count = uint(smaller(to - line, 4));
      MPSX_VECTORIZE
      for (uint c = 0; c < n; ++c) {
#pragma unroll
        for (uint q = 0; q < Q; ++q) {
          const A none = Identity<Combine, A>::value();
          const A v1 = l1.one(c, q), v2 = l2.one(c, q), v3 = l3.one(c, q);
          const A a = Combine::apply(l0.one(c, q), count > 1 ? v1 : none);
          const A b = Combine::apply(count > 2 ? v2 : none, count > 3 ? v3 : none);
          const uint i = q * kFoldColumns + c;
          block[i] = Combine::apply(block[i], Combine::apply(a, b));
        }
      }
    }
    for (uint q = 0; q < Q * kFoldColumns; q += kFoldColumns)
      for (uint c = 0; c < n; ++c) {
        A t = result[q + c], l = low[q + c];
        Fold<Combine>::add(t, l, block[q + c]);
        result[q + c] = t, low[q + c] = l;
      }
  }
  for (uint q = 0; q < Q * kFoldColumns; q += kFoldColumns)
    for (uint c = 0; c < n; ++c) result[q + c] = Fold<Combine>::settle(result[q + c], low[q + c]);
}

template <typename Combine, uint N, uint Q, typename A, typename Lines>
inline void fold_columns(threadgroup A* result, threadgroup A*, Lines lines, ulong first, ulong last, uint n,
                         GroupThread) {
  fold_lines<Combine, Q>(result, lines, first, last, n);
}

template <uint N, typename O, typename Lines>
inline void store_columns(device O* out, ulong pitch, Lines lines, ulong first, ulong last, uint n, GroupThread) {
  for (ulong line = first; line < last; ++line) {
    const auto from = lines.line(line);
    device O* to = out + line * pitch;
    MPSX_VECTORIZE
    for (uint c = 0; c < n; ++c) to[c] = O(from.one(c, 0));
  }
}
