// cross_entropy of rows of scores with class indices: nll_loss of log_softmax, without the log-probabilities in memory.
#include "lib/instantiate.h"
#include "lib/math.h"
#include "lib/row.h"
#include "loss/nll_loss.h"

// To the digits of halves: the sum of many has those of float.
struct ExpOfHalves {
  float at(float x) const { return exp_nonpositive_as<half>(x); }
};

// Of every row its largest score and the logarithm of what it divides by, apart: the digits of a large score would not
// leave room for the other. Losses are those of rows or, where they are reduced, sums of a threadgroup's with weights.
template <typename T>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void cross_entropy_rows(device float* losses [[buffer(0)]], device float* norms [[buffer(1)]],
                               device const T* in [[buffer(2)]], device const long* target [[buffer(3)]],
                               device const float* weight [[buffer(4)]], constant CrossEntropyParams& p [[buffer(5)]],
                               device ErrorRecord* errors [[buffer(6)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  threadgroup float2 sums[kScratch];
  const Team team = team_of(p.shape.rows, p.shape.team, g);
  float2 own = float2(0.0f);
  if (team.row < p.shape.rows) {
    Row<Plain<T>> row;
    row.open({in + ulong(team.row) * p.shape.size}, p.shape, team);
    float at_target = 0.0f;
    long offset = -1;
    if (team.index == 0) {  // on its way with the row
      own.y = sample_weight(offset, team.row, target, weight, p.loss, errors);
      if (offset >= 0) at_target = float(in[offset]);
    }
    const ExpOfHalves f = {};
    const float2 thread_sum = row.exp_sum(f);
    const float top = team_reduce<CombineMax>(thread_sum.x, scratch, team, g);
    const float scaled = thread_sum.y * f.at(thread_sum.x - top);
    const float rest = precise::log(team_reduce<CombineSum>(scaled, scratch, team, g));
    if (team.index == 0) {
      norms[2 * ulong(team.row)] = top;
      norms[2 * ulong(team.row) + 1] = rest;
      if (offset >= 0) own.x = -own.y * (at_target - top - rest);
      if (!p.loss.reduced) losses[team.row] = own.x;
    }
  }
  if (!p.loss.reduced) return;
  store_sums(losses, team.whole ? own : tg_sum(own, sums, g), g);
}

// The row's probabilities, of which that of the target is one less, times a number.
template <typename T>
struct CrossEntropyGradient {
  float top, rest, scale;
  float at(float x, float is_target) const { return (exp_nonpositive_as<T>(x - top - rest) - is_target) * scale; }
};
// 1 at the target, 0 elsewhere.
struct IsTarget {
  uint target;
  struct Raw {
    uint place;
  };
  template <uint N>
  Raw fetch(uint i) const { return {i}; }
  float at(Raw raw, uint j) const { return one(raw.place + j); }
  float one(uint i) const { return i == target ? 1.0f : 0.0f; }
};

template <typename T>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void cross_entropy_bwd(device T* grad_in [[buffer(0)]], device const float* grad_out [[buffer(1)]],
                              device const T* in [[buffer(2)]], device const long* target [[buffer(3)]],
                              device const float* weight [[buffer(4)]], device const float* norms [[buffer(5)]],
                              device const float* total_weight [[buffer(6)]],
                              constant CrossEntropyParams& p [[buffer(7)]], device ErrorRecord* errors [[buffer(8)]],
                              MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const Team team = team_of(p.shape.rows, p.shape.team, g);
  if (team.row >= p.shape.rows) return;
  const ulong start = ulong(team.row) * p.shape.size;
  Row<Plain<T>> row;
  row.open({in + start}, p.shape, team);
  long offset;
  float scale = sample_weight(offset, team.row, target, weight, p.loss, errors);
  scale *= grad_out[p.loss.reduced ? 0 : team.row];
  if (offset < 0) scale = 0.0f;  // and not divided: all may be ignored
  else if (p.loss.mean) scale /= total_weight[0];
  // The target is read again: `offset` would have to stay in registers, which the row needs.
  row.store(grad_in + start, IsTarget{uint(target[team.row])},
            CrossEntropyGradient<T>{norms[2 * ulong(team.row)], norms[2 * ulong(team.row) + 1], scale});
}

#define CROSS_ENTROPY(T, TAG, ...)                               \
  MPSX_KERNEL("cross_entropy_rows_" #TAG, cross_entropy_rows<T>) \
  MPSX_KERNEL("cross_entropy_bwd_" #TAG, cross_entropy_bwd<T>)
MPSX_FOR_FLOAT(CROSS_ENTROPY, )
