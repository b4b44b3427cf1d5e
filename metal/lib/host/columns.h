// Column reductions on the host driver, where a threadgroup is one thread. Processes four rows at a time, vectorized
// over columns. If fewer than four rows remain, the last row is loaded repeatedly but counted once.
#pragma once

enum : uint { kRowBlock = 32 };

// Do not inline reduce_column and reduce_tile_columns, because many kernels of a file share their instantiations.

// Reduces one column with four independent accumulators, for matrices with too few columns to vectorize over columns.
template <typename Combine, typename A, typename Matrix>
__attribute__((noinline)) static A reduce_column(Matrix matrix, ulong first, ulong last, uint c, uint q) {
  A total = Init<Combine, A>::value(), low = A{};
  for (ulong from = first; from < last; from += kRowBlock) {
    const ulong to = min64(from + kRowBlock, last);
    A part[4];
    for (uint k = 0; k < 4; ++k) part[k] = Init<Combine, A>::value();
    ulong row = from;
    for (; row + 4 <= to; row += 4) {
#pragma unroll
      for (uint k = 0; k < 4; ++k) part[k] = Combine::apply(part[k], matrix.row(row + k).scalar(c, q));
    }
    for (; row < to; ++row) part[0] = Combine::apply(part[0], matrix.row(row).scalar(c, q));
    const A block = Combine::apply(Combine::apply(part[0], part[1]), Combine::apply(part[2], part[3]));
    Accumulator<Combine>::accumulate(total, low, block);
  }
  return Accumulator<Combine>::finalize(total, low);
}

template <typename Combine, uint Q, typename A, typename Matrix>
__attribute__((noinline)) static void reduce_tile_columns(threadgroup A* result, Matrix matrix, ulong first, ulong last,
                                                          uint n) {
  if (n <= 4) {
    for (uint i = 0; i < Q * n; ++i)
      result[i / n * kColumnTile + i % n] = reduce_column<Combine, A>(matrix, first, last, i % n, i / n);
    return;
  }
  A low[Q * kColumnTile], block[Q * kColumnTile];
  for (uint q = 0; q < Q * kColumnTile; q += kColumnTile)
    for (uint c = 0; c < n; ++c) result[q + c] = Init<Combine, A>::value(), low[q + c] = A{};
  for (ulong from = first; from < last; from += kRowBlock) {
    const ulong to = min64(from + kRowBlock, last);
    for (uint q = 0; q < Q * kColumnTile; q += kColumnTile)
      for (uint c = 0; c < n; ++c) block[q + c] = Init<Combine, A>::value();
    for (ulong row = from; row < to; row += 4) {
      const auto r0 = matrix.row(row), r1 = matrix.row(min64(row + 1, to - 1));
      const auto r2 = matrix.row(min64(row + 2, to - 1)), r3 = matrix.row(min64(row + 3, to - 1));
      const uint count = uint(min64(to - row, 4));
      MPSX_VECTORIZE
      for (uint c = 0; c < n; ++c) {
#pragma unroll
        for (uint q = 0; q < Q; ++q) {
          const A none = Init<Combine, A>::value();
          const A v1 = r1.scalar(c, q), v2 = r2.scalar(c, q), v3 = r3.scalar(c, q);
          const A a = Combine::apply(r0.scalar(c, q), count > 1 ? v1 : none);
          const A b = Combine::apply(count > 2 ? v2 : none, count > 3 ? v3 : none);
          const uint i = q * kColumnTile + c;
          block[i] = Combine::apply(block[i], Combine::apply(a, b));
        }
      }
    }
    for (uint q = 0; q < Q * kColumnTile; q += kColumnTile)
      for (uint c = 0; c < n; ++c) {
        A t = result[q + c], l = low[q + c];
        Accumulator<Combine>::accumulate(t, l, block[q + c]);
        result[q + c] = t, low[q + c] = l;
      }
  }
  for (uint q = 0; q < Q * kColumnTile; q += kColumnTile)
    for (uint c = 0; c < n; ++c) result[q + c] = Accumulator<Combine>::finalize(result[q + c], low[q + c]);
}

template <typename Combine, uint N, uint Q, typename A, typename Matrix>
inline void column_reduce(threadgroup A* result, threadgroup A*, Matrix matrix, ulong first, ulong last, uint n, bool,
                          GroupThread) {
  reduce_tile_columns<Combine, Q>(result, matrix, first, last, n);
}

template <uint N, typename O, typename Matrix>
inline void column_store(device O* out, ulong pitch, Matrix matrix, ulong first, ulong last, uint n, bool,
                         GroupThread) {
  for (ulong row = first; row < last; ++row) {
    const auto from = matrix.row(row);
    device O* to = out + row * pitch;
    MPSX_VECTORIZE
    for (uint c = 0; c < n; ++c) to[c] = O(from.scalar(c, 0));
  }
}
