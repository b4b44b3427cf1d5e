// Shared by the normalisations of rows.
#pragma once

#include "lib/columns.h"
#include "lib/instantiate.h"
#include "lib/row.h"
#include "norm/params.h"

// Weight and bias beside the values of a row; 1 and 0 where there are none.
template <typename W>
struct Parameters {
  device const W* weight;
  device const W* bias;
  bool has_weight, has_bias;
  template <uint N>
  struct Raw {
    Pack<W, N> weight, bias;
  };
  template <uint N>
  Raw<N> fetch(uint i) const {
    Raw<N> raw;
    if (has_weight) raw.weight = load_pack<N>(weight + i);
    if (has_bias) raw.bias = load_pack<N>(bias + i);
    return raw;
  }
  template <uint N>
  Pair at(Raw<N> raw, uint j) const {
    return {has_weight ? float(raw.weight.v[j]) : 1.0f, has_bias ? float(raw.bias.v[j]) : 0.0f};
  }
  Pair one(uint i) const { return {has_weight ? float(weight[i]) : 1.0f, has_bias ? float(bias[i]) : 0.0f}; }
};

// The gradient of a result, times the weight, beside the input.
template <typename T, typename W>
struct GradientAndInput {
  enum : uint { kPack = 16 / sizeof(T) };
  typedef Pair Value;
  typedef typename Both<T>::Raw Raw;
  Both<T> both;
  device const W* weight;
  bool has_weight;
  static Raw filled(uint word) { return Both<T>::filled(word); }
  Raw fetch(uint i) const { return both.fetch(i); }
  void unpack(thread Pair* v, Raw raw, uint i) const {
    Pack<W, kPack> w;
    if (has_weight) w = load_pack<kPack>(weight + i);
#pragma unroll
    for (uint j = 0; j < kPack; ++j) {
      v[j] = Both<T>::value(raw, j);
      v[j].a *= has_weight ? float(w.v[j]) : 1.0f;
    }
  }
  Pair one(uint i) const {
    const Pair v = both.one(i);
    return {has_weight ? v.a * float(weight[i]) : v.a, v.b};
  }
};

// The lines that weight gradients add up: quantity 0 is the weight's, 1 the bias's. Without means they are zero.
template <typename T>
struct GradientLine {
  template <uint N>
  struct Raw {
    Pack<T, N> dy, x;
  };
  device const T* dy;
  device const T* x;
  float mean, rstd;
  float term(float g, float v, uint q) const { return q == 0 ? g * ((v - mean) * rstd) : g; }
  template <uint N>
  Raw<N> fetch(uint c) const { return {load_pack<N>(dy + c), load_pack<N>(x + c)}; }
  template <uint N>
  float value(Raw<N> raw, uint j, uint q) const { return term(float(raw.dy.v[j]), float(raw.x.v[j]), q); }
  float one(uint c, uint q) const { return term(float(dy[c]), float(x[c]), q); }
};
template <typename T, typename S>
struct GradientLines {
  typedef GradientLine<T> Line;
  device const T* dy;
  device const T* x;
  device const S* means;
  device const S* rstds;
  ulong size;
  Line line(ulong i) const { return {dy + i * size, x + i * size, means ? float(means[i]) : 0.0f, float(rstds[i])}; }
  GradientLines from(uint column) const { return {dy + column, x + column, means, rstds, size}; }
};

enum : uint { kGradientPack = 4 };  // columns that a thread takes at once

// Q quantities of a tile of columns and a range of rows: parts [quantity][split][column].
template <uint Q, typename Lines>
inline void weight_gradient(device float* parts, Lines lines, threadgroup float* result, threadgroup float* scratch,
                            constant RowNormParams& p, GroupThread g) {
  const uint first = g.group.x * kNormColumns, n = min(uint(kNormColumns), p.shape.size - first);
  const uint row = g.group.y * p.rows_per_split, end = min(row + p.rows_per_split, p.shape.rows);
  if (p.packed_lines)
    fold_columns<CombineSum, kGradientPack, Q>(result, scratch, lines.from(first), row, end, n, g);
  else
    fold_columns<CombineSum, 1, Q>(result, scratch, lines.from(first), row, end, n, g);
  for (uint q = 0; q < Q; ++q)
    for (uint c = g.index; c < n; c += g.count)
      parts[(ulong(q) * p.splits + g.group.y) * p.shape.size + first + c] = result[q * kFoldColumns + c];
}
