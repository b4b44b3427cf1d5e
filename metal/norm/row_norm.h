// The weight and bias of a row, and the column sums for their gradients. Used by layer_norm and rms_norm.
#pragma once

#include "lib/columns.h"
#include "lib/instantiate.h"
#include "lib/row.h"
#include "norm/params.h"

// The weights and biases for the elements of a row. A missing weight is treated as 1, and a missing bias as 0.
template <typename W>
struct Parameters {
  device const W* weight;
  device const W* bias;
  bool has_weight, has_bias;
  template <uint N>
  struct Raw {
    Vec<W, N> weight, bias;
  };
  template <uint N>
  Raw<N> load(uint i) const {
    Raw<N> raw;
    if (has_weight) raw.weight = load_vec<N>(weight + i);
    if (has_bias) raw.bias = load_vec<N>(bias + i);
    return raw;
  }
  template <uint N>
  Pair at(Raw<N> raw, uint j) const {
    return {has_weight ? float(raw.weight.v[j]) : 1.0f, has_bias ? float(raw.bias.v[j]) : 0.0f};
  }
  Pair scalar(uint i) const { return {has_weight ? float(weight[i]) : 1.0f, has_bias ? float(bias[i]) : 0.0f}; }
};

// Loads pairs (output gradient * weight, input).
template <typename T, typename W>
struct GradientLoader {
  enum : uint { kVector = 16 / sizeof(T) };
  typedef Pair Value;
  typedef typename PairLoader<T>::Raw Raw;
  PairLoader<T> pair;
  device const W* weight;
  bool has_weight;
  static Raw fill(uint word) { return PairLoader<T>::fill(word); }
  Raw load(uint i) const { return pair.load(i); }
  void unpack(thread Pair* v, Raw raw, uint i) const {
    Vec<W, kVector> w;
    if (has_weight) w = load_vec<kVector>(weight + i);
#pragma unroll
    for (uint j = 0; j < kVector; ++j) {
      v[j] = PairLoader<T>::element(raw, j);
      v[j].a *= has_weight ? float(w.v[j]) : 1.0f;
    }
  }
  Pair scalar(uint i) const {
    const Pair v = pair.scalar(i);
    return {has_weight ? v.a * float(weight[i]) : v.a, v.b};
  }
};

// A row of a matrix whose column sums are the gradients of the weight (q = 0) and the bias (q = 1). `means` may be
// null.
template <typename T>
struct GradientRow {
  template <uint N>
  struct Raw {
    Vec<T, N> dy, x;
  };
  device const T* dy;
  device const T* x;
  float mean, rstd;
  float term(float g, float v, uint q) const { return q == 0 ? g * ((v - mean) * rstd) : g; }
  template <uint N>
  Raw<N> load(uint c) const { return {load_vec<N>(dy + c), load_vec<N>(x + c)}; }
  template <uint N>
  float value(Raw<N> raw, uint, uint j, uint q) const { return term(float(raw.dy.v[j]), float(raw.x.v[j]), q); }
  float scalar(uint c, uint q) const { return term(float(dy[c]), float(x[c]), q); }
};
template <typename T, typename S>
struct GradientMatrix {
  typedef GradientRow<T> Row;
  device const T* dy;
  device const T* x;
  device const S* means;
  device const S* rstds;
  ulong size;
  Row row(ulong i) const { return {dy + i * size, x + i * size, means ? float(means[i]) : 0.0f, float(rstds[i])}; }
  GradientMatrix from(uint column) const { return {dy + column, x + column, means, rstds, size}; }
};

enum : uint { kGradientVector = 4 };  // columns per vector load

// Sums Q gradients over a range of rows, for a tile of columns. Stores the partial sums in
// parts[gradient][split][column].
template <uint Q, typename Matrix>
inline void weight_gradient(device float* parts, Matrix matrix, threadgroup float* result, threadgroup float* scratch,
                            constant RowNormParams& p, GroupThread g) {
  const uint first = g.group.x * kNormColumns, n = min(uint(kNormColumns), p.shape.size - first);
  const uint row = g.group.y * p.rows_per_split, end = min(row + p.rows_per_split, p.shape.rows);
  column_reduce<CombineSum, kGradientVector, Q>(result, scratch, matrix.from(first), row, end, n, p.aligned_rows, g);
  for (uint q = 0; q < Q; ++q)
    for (uint c = g.index; c < n; c += g.count)
      parts[(ulong(q) * p.splits + g.group.y) * p.shape.size + first + c] = result[q * kColumnTile + c];
}
