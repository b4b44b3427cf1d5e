// Determines which output and which elements each threadgroup of a reduction processes.
#pragma once

#include "lib/columns.h"
#include "reduce/params.h"

// The elements that one threadgroup or row group reduces: elements [begin, end) of each of the lines [first, last).
struct ReduceRange {
  long input, output;  // offsets of the first input element and of the result
  ulong first, last, begin, end;
};

inline ReduceRange reduce_kept(constant ReduceParams& p, uint kept) {
  ReduceRange r = {0, 0, 0, p.lines, 0, p.inner_size};
  // Skip the divisions if possible, because they cost more than reducing a short row.
  if (p.kept_size[1] == 1 && p.kept_size[2] == 1 && p.kept_size[3] == 1) {
    r.input = long(kept) * p.kept_stride[0];
    r.output = long(kept) * p.kept_out[0];
    return r;
  }
  for (uint d = 0; d < 4; ++d) {
    const uint rest = kept / p.kept_size[d], i = kept - rest * p.kept_size[d];
    r.input += long(i) * p.kept_stride[d];
    r.output += long(i) * p.kept_out[d];
    kept = rest;
  }
  return r;
}

// Reads this thread's share of n contiguous elements, in batches of kUnroll 16-byte vectors. Issues all loads of a
// batch before the first use. The first element is `offset` elements after a 16-byte boundary. Elements before the
// first aligned vector (the prologue) and after the last one (the tail) are read one at a time. n is a 32-bit number,
// because longer rows are always split: memory holds only a few of them.
//
//   RowReader<T> reader(x, offset, n, group);
//   for (; reader.load_batch(); reader.advance())
//     for (uint k = 0; k < kUnroll && reader.valid(k); ++k) … reader.value(k, j) …
//   for (uint e = reader.index; e < reader.scalars; e += reader.count) … x[reader.scalar_offset(e)] …
template <typename T>
struct RowReader {
  enum : uint { kVector = 16 / sizeof(T) };
  device const T* x;
  uint prologue, vectors, scalars, index, count, first;
  uint4 raw[kUnroll];
  RowReader(device const T* from, uint offset, uint n, RowGroup group)
      : x(from), prologue(min((kVector - offset % kVector) % kVector, n)), vectors((n - prologue) / kVector),
        scalars(n - vectors * kVector), index(group.index), count(group.count), first(group.index) {}
  uint number(uint k) const { return first + k * count; }
  uint offset(uint k) const { return prologue + number(k) * kVector; }
  bool valid(uint k) const { return number(k) < vectors; }
  // Returns the offset in the row of element e of the prologue and tail.
  uint scalar_offset(uint e) const { return e < prologue ? e : e + vectors * kVector; }
  T value(uint k, uint j) const { return VecWords<T, sizeof(T)>::get(raw[k], j); }
  uint4 load(uint i) const { return load_words<16>(x + i); }
  // Loads the next batch of vectors, or returns false if there are none left.
  bool load_batch() {
    if (first >= vectors) return false;
#pragma unroll
    for (uint k = 0; k < kUnroll; ++k) {
      raw[k] = uint4(vectors);
      if (valid(k)) raw[k] = load(offset(k));
    }
    return true;
  }
  void advance() { first += kUnroll * count; }
};

// Returns the range of elements that one split reduces for one output.
inline ReduceRange reduce_row_range(constant ReduceParams& p, uint output, uint split) {
  ReduceRange r = reduce_kept(p, output);
  if (p.splits == 1) return r;
  const ulong inner_splits = (p.inner_size + p.split_inner - 1) / p.split_inner;
  const ulong line = split / inner_splits, part = split - line * inner_splits;
  r.first = min64(line * p.split_lines, p.lines);
  r.last = min64(r.first + p.split_lines, p.lines);
  r.begin = part * p.split_inner;
  r.end = min64(r.begin + p.split_inner, p.inner_size);
  return r;
}

// Returns the range of elements that a threadgroup reduces. `begin` and `end` are columns. group = (tile of columns,
// split, kept index).
inline ReduceRange reduce_column_range(constant ReduceParams& p, uint3 group) {
  ReduceRange r = reduce_kept(p, group.z);
  r.first = min64(ulong(group.y) * p.split_lines, p.lines);
  r.last = min64(r.first + p.split_lines, p.lines);
  r.begin = ulong(group.x) * kReduceColumns;
  r.end = min64(r.begin + kReduceColumns, p.inner_size);
  return r;
}

inline long line_offset(constant ReduceParams& p, ulong line) {
  if (p.line_size[1] == 1 && p.line_size[2] == 1) return long(line) * p.line_stride[0];
  const ulong rest = line / p.line_size[0], i = line - rest * p.line_size[0];
  const ulong k = rest / p.line_size[1], j = rest - k * p.line_size[1];
  return long(i) * p.line_stride[0] + long(j) * p.line_stride[1] + long(k) * p.line_stride[2];
}
