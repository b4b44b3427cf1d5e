// Sums the partial gradients parts[gradient][split][column] over the splits, for the weight, the bias, or both.
#include "norm/row_norm.h"

template <typename W>
kernel void norm_merge(device W* out [[buffer(0)]], device W* second [[buffer(1)]],
                       device const float* parts [[buffer(2)]], constant RowNormParams& p [[buffer(3)]],
                       MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float result[kColumnTile], scratch[kColumnThreads];
  const uint first = g.group.x * kMergeColumns, n = min(uint(kMergeColumns), p.shape.size - first);
  const ulong begin = ulong(g.group.y) * p.splits;
  column_reduce<CombineSum, 1, 1>(result, scratch, PartialMatrix<float>{parts + first, p.shape.size}, begin,
                                  begin + p.splits, n, false, g);
  device W* to = g.group.y == 0 ? out : second;
  for (uint c = g.index; c < n; c += g.count) to[first + c] = W(result[c]);
}
#define MPSX_NORM_MERGE(T, TAG, ...) MPSX_KERNEL("norm_merge_" #TAG, norm_merge<T>)
MPSX_FOR_FLOAT(MPSX_NORM_MERGE)
