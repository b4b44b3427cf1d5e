// Adds up partial sums [split][column], in order.
#include "norm/row_norm.h"

template <typename W>
kernel void norm_merge(device W* out [[buffer(0)]], device const float* parts [[buffer(1)]],
                       constant RowNormParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sum[kNormColumns];
  const uint first = g.group.x * kNormColumns, n = min(uint(kNormColumns), p.size - first);
  for (uint c = g.index; c < n; c += g.count) sum[c] = 0.0f;
  for (uint s = 0; s < p.splits; ++s) {
    device const float* part = parts + (ulong(s) * p.size + first);
    MPSX_VECTORIZE
    for (uint c = g.index; c < n; c += g.count) sum[c] += part[c];
  }
  for (uint c = g.index; c < n; c += g.count) out[first + c] = W(sum[c]);
}
#define MPSX_NORM_MERGE(T, TAG, ...) MPSX_KERNEL("norm_merge_" #TAG, norm_merge<T>)
MPSX_FOR_FLOAT(MPSX_NORM_MERGE)
