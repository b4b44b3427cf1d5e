// Draws column indices with replacement. Probabilities are proportional to the weights in a row.
#include "lib/collective.h"
#include "lib/error.h"
#include "lib/instantiate.h"
#include "lib/random.h"
#include "random/params.h"

// Sums the weights of each block and computes the prefix sums of these sums. For each sample, first finds the block and
// then the column in the block. There is one threadgroup per row.
template <typename T>
kernel void multinomial(device long* out [[buffer(0)]], device const T* weights [[buffer(1)]],
                        constant MultinomialParams& p [[buffer(2)]], device ErrorRecord* errors [[buffer(3)]],
                        MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float ends[kMultinomialBlocks];
  threadgroup uint invalid[kMultinomialBlocks];
  threadgroup uint last;  // index of the last block with a nonzero weight
  device const T* row = weights + ulong(g.group.x) * p.columns;
  for (uint b = g.index; b < p.blocks; b += g.count) {
    const uint end = min((b + 1) * p.block, p.columns);
    float sum = 0.0f;
    uint bad = 0;
    MPSX_REDUCE(+ : sum, bad)
    for (uint i = b * p.block; i < end; ++i) {
      const float w = float(row[i]);
      sum += w;
      bad += uint(!(w >= 0.0f && w < INFINITY));
    }
    ends[b] = sum;
    invalid[b] = bad;
  }
  tg_barrier();
  if (g.index == 0) {
    float sum = 0.0f;
    uint bad = 0, weighted = p.blocks;
    for (uint b = 0; b < p.blocks; ++b) {
      weighted = ends[b] > 0.0f ? b : weighted;
      bad += invalid[b];
      sum += ends[b];
      ends[b] = sum;
    }
    last = weighted;
    if (bad > 0 || weighted == p.blocks) {
      report_weights(errors, bad > 0);
      last = 0;
    }
  }
  tg_barrier();
  const float total = ends[p.blocks - 1];
  for (uint s = g.index; s < p.samples; s += g.count) {
    const ulong sample_index = ulong(g.group.x) * p.samples + s, counter = p.offset + sample_index;
    const PhiloxBlock bits = philox4x32(uint(counter), uint(counter >> 32), 0u, 0u, uint(p.seed), uint(p.seed >> 32));
    const float wanted = uniform_unit(bits.x) * total;
    uint b = 0, above = last;  // find the first block that ends above the target; with rounding, there may be none
    while (b < above) {
      const uint middle = (b + above) / 2;
      if (ends[middle] > wanted) above = middle;
      else b = middle + 1;
    }
    const uint end = min((b + 1) * p.block, p.columns);
    float sum = b == 0 ? 0.0f : ends[b - 1];
    uint column = b * p.block;
    for (uint i = column; i < end && sum <= wanted; ++i) {
      const float w = float(row[i]);
      sum += w;
      column = w > 0.0f ? i : column;  // never draw a column with weight 0
    }
    out[sample_index] = column;
  }
}

#define MULTINOMIAL(T, TAG, ...) MPSX_KERNEL("multinomial_" #TAG, multinomial<T>)
MPSX_FOR_FLOAT(MULTINOMIAL, )
