// All gradients of rows at once, so that memory is read once: rows of whole packs, which a team's threads hold. A
// threadgroup has a range of rows, and its teams take turns. A thread has the same columns of every row: it loads
// those of its next row before it needs them, and adds up the gradients of weight and bias in registers. Partial sums
// go to parts [quantity][threadgroup][column]; a norm that is not CENTRED has neither means nor a bias.
#pragma once

#include "norm/row_norm.h"

template <bool CENTRED, typename T, typename W, typename S>
inline void fused_gradients(device T* out, device float* parts, Both<T> in, device const S* means,
                            device const S* rstds, device const W* weight, threadgroup float* columns,
                            threadgroup float2* scratch, constant RowNormParams& p, GroupThread g) {
  enum : uint { kPack = Both<T>::kPack, kPacks = kFusedBytes / 16, kQuantities = CENTRED ? 2 : 1 };
  const Team team = team_of(p.splits, p.shape.team, g);
  const uint n = p.shape.size, packs = n / kPack;
  const uint teams = team.whole ? 1 : g.count / team.count, mine = team.whole ? 0 : g.index / team.count;
  const uint first = g.group.x * p.rows_per_split, end = min(first + p.rows_per_split, p.shape.rows);
  const float share = 1.0f / float(n);
  uint at[kPacks];
  bool held[kPacks];
  typename Both<T>::Raw ahead[kPacks];
  float w[kPacks][kPack], sum_w[kPacks][kPack], sum_b[kPacks][kPack];
  uint row = min(first + mine, end - 1);
  float mean_ahead = CENTRED ? float(means[row]) : 0.0f, rstd_ahead = float(rstds[row]);
#pragma unroll
  for (uint k = 0; k < kPacks; ++k) {
    const uint number = k * team.count + team.index;
    held[k] = number < packs && mine < teams;
    at[k] = min(number, packs - 1) * kPack;
    const Pack<W, kPack> beside = load_pack<kPack>(weight + at[k]);
    ahead[k] = Both<T>{in.x + ulong(row) * n, in.y + ulong(row) * n}.fetch(at[k]);
#pragma unroll
    for (uint j = 0; j < kPack; ++j)  // what is not held adds nothing to a row's sums
      w[k][j] = held[k] ? float(beside.v[j]) : 0.0f, sum_w[k][j] = sum_b[k][j] = 0.0f;
  }
  for (uint base = first; base < end; base += teams) {  // as often in every team
    typename Both<T>::Raw now[kPacks];
    const float mean = mean_ahead, rstd = rstd_ahead;
    const bool there = base + mine < end;
    device T* to = out + ulong(row) * n;
    row = min(row + teams, end - 1);
    mean_ahead = CENTRED ? float(means[row]) : 0.0f, rstd_ahead = float(rstds[row]);
#pragma unroll
    for (uint k = 0; k < kPacks; ++k) {
      now[k] = ahead[k];
      ahead[k] = Both<T>{in.x + ulong(row) * n, in.y + ulong(row) * n}.fetch(at[k]);
    }
    float sum = 0.0f, product = 0.0f;
#pragma unroll
    for (uint i = 0; i < kPacks * kPack; ++i) {
      const Pair v = Both<T>::value(now[i / kPack], i % kPack);
      const float u = v.a * w[i / kPack][i % kPack];
      sum += u;
      product = fma(u, v.b - mean, product);
    }
    if (CENTRED) {
      const float2 sums = team_reduce<CombineSum>(float2(sum, product), scratch, team, g);
      sum = sums.x, product = sums.y;
    } else {
      product = team_reduce<CombineSum>(product, (threadgroup float*)scratch, team, g);
    }
    if (!there) continue;
    const float shift = CENTRED ? rstd * share * sum : 0.0f, slope = product * share * rstd * rstd * rstd;
#pragma unroll
    for (uint k = 0; k < kPacks; ++k) {
      Pack<T, kPack> dx;
#pragma unroll
      for (uint j = 0; j < kPack; ++j) {
        const Pair v = Both<T>::value(now[k], j);
        const float centred = v.b - mean, dy = v.a * rstd;
        dx.v[j] = T(fma(dy, w[k][j], fma(-centred, slope, -shift)));
        sum_w[k][j] = fma(dy, centred, sum_w[k][j]);
        sum_b[k][j] += v.a;
      }
      if (held[k]) store_pack(to + at[k], dx);
    }
  }
  // The teams add theirs up in turn.
#pragma unroll
  for (uint q = 0; q < kQuantities; ++q) {
    device float* sums = parts + (ulong(q) * p.splits + g.group.x) * n;
    for (uint turn = 0; turn < teams; ++turn) {
#pragma unroll
      for (uint k = 0; k < kPacks; ++k) {
        if (!held[k] || mine != turn) continue;
#pragma unroll
        for (uint j = 0; j < kPack; ++j) {
          const uint c = at[k] + j;
          const float v = q == 0 ? sum_w[k][j] : sum_b[k][j], total = turn == 0 ? v : columns[c] + v;
          if (turn + 1 < teams)
            columns[c] = total;
          else
            sums[c] = total;
        }
      }
      if (teams > 1) tg_barrier();
    }
  }
}
