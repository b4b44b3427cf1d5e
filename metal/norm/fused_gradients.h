// Computes all gradients of a row norm in one pass over memory. A row must consist of full vectors and fit in the
// registers of a row group. A threadgroup processes a range of rows, with one row per row group at a time. Each thread
// processes the same columns of every row. It prefetches its part of the next row and accumulates the gradients of the
// weight and the bias in registers. Partial sums are stored in parts[gradient][threadgroup][column], where gradient is
// 0 for the weight and 1 for the bias. Without CENTERED, the norm has neither a mean nor a bias.
#pragma once

#include "norm/row_norm.h"

template <bool CENTERED, typename T, typename W, typename S>
inline void fused_gradients(device T* out, device float* parts, PairLoader<T> in, device const S* means,
                            device const S* rstds, device const W* weight, threadgroup float* columns,
                            threadgroup float2* scratch, constant RowNormParams& p, GroupThread g) {
  enum : uint { kVector = PairLoader<T>::kVector, kVectors = kFusedBytes / 16, kQuantities = CENTERED ? 2 : 1 };
  const RowGroup group = row_group(p.splits, p.shape.row_threads, g);
  const uint n = p.shape.size, vectors = n / kVector;
  const uint groups = row_groups(group, g), group_index = group.spans_threadgroup ? 0 : g.index / group.count;
  const uint first = g.group.x * p.rows_per_split, end = min(first + p.rows_per_split, p.shape.rows);
  const float inv_n = 1.0f / float(n);
  uint column[kVectors];
  bool valid[kVectors];
  typename PairLoader<T>::Raw next[kVectors];
  float w[kVectors][kVector], sum_w[kVectors][kVector], sum_b[kVectors][kVector];
  uint row = min(first + group_index, end - 1);
  float next_mean = CENTERED ? float(means[row]) : 0.0f, next_rstd = float(rstds[row]);
#pragma unroll
  for (uint k = 0; k < kVectors; ++k) {
    const uint number = k * group.count + group.index;
    valid[k] = number < vectors && group_index < groups;
    column[k] = min(number, vectors - 1) * kVector;
    const Vec<W, kVector> weights = load_vec<kVector>(weight + column[k]);
    next[k] = PairLoader<T>{in.x + ulong(row) * n, in.y + ulong(row) * n}.load(column[k]);
#pragma unroll
    for (uint j = 0; j < kVector; ++j)  // a weight of 0 excludes vectors past the end from the sums
      w[k][j] = valid[k] ? float(weights.v[j]) : 0.0f, sum_w[k][j] = sum_b[k][j] = 0.0f;
  }
  for (uint base = first; base < end; base += groups) {  // every row group has the same number of iterations
    typename PairLoader<T>::Raw raw[kVectors];
    const float mean = next_mean, rstd = next_rstd;
    const bool in_range = base + group_index < end;
    device T* to = out + ulong(row) * n;
    row = min(row + groups, end - 1);
    next_mean = CENTERED ? float(means[row]) : 0.0f, next_rstd = float(rstds[row]);
#pragma unroll
    for (uint k = 0; k < kVectors; ++k) {
      raw[k] = next[k];
      next[k] = PairLoader<T>{in.x + ulong(row) * n, in.y + ulong(row) * n}.load(column[k]);
    }
    float sum = 0.0f, dot = 0.0f;
#pragma unroll
    for (uint i = 0; i < kVectors * kVector; ++i) {
      const Pair v = PairLoader<T>::element(raw[i / kVector], i % kVector);
      const float u = v.a * w[i / kVector][i % kVector];
      sum += u;
      dot = fma(u, v.b - mean, dot);
    }
    if (CENTERED) {
      const float2 sums = rg_reduce<CombineSum>(float2(sum, dot), scratch, group, g);
      sum = sums.x, dot = sums.y;
    } else {
      dot = rg_reduce<CombineSum>(dot, (threadgroup float*)scratch, group, g);
    }
    if (!in_range) continue;
    const float shift = CENTERED ? rstd * inv_n * sum : 0.0f, slope = dot * inv_n * rstd * rstd;
#pragma unroll
    for (uint k = 0; k < kVectors; ++k) {
      Vec<T, kVector> dx;
#pragma unroll
      for (uint j = 0; j < kVector; ++j) {
        const Pair v = PairLoader<T>::element(raw[k], j);
        const float normalized = (v.b - mean) * rstd;
        dx.v[j] = T(fma(v.a * rstd, w[k][j], fma(-normalized, slope, -shift)));
        sum_w[k][j] = fma(v.a, normalized, sum_w[k][j]);
        sum_b[k][j] += v.a;
      }
      if (valid[k]) store_vec(to + column[k], dx);
    }
  }
  // The row groups take turns adding their sums.
#pragma unroll
  for (uint q = 0; q < kQuantities; ++q) {
    device float* sums = parts + (ulong(q) * p.splits + g.group.x) * n;
    for (uint turn = 0; turn < groups; ++turn) {
#pragma unroll
      for (uint k = 0; k < kVectors; ++k) {
        if (!valid[k] || group_index != turn) continue;
#pragma unroll
        for (uint j = 0; j < kVector; ++j) {
          const uint c = column[k] + j;
          const float v = q == 0 ? sum_w[k][j] : sum_b[k][j], total = turn == 0 ? v : columns[c] + v;
          if (turn + 1 < groups)
            columns[c] = total;
          else
            sums[c] = total;
        }
      }
      if (groups > 1) tg_barrier();
    }
  }
}
