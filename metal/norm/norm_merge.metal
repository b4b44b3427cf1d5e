// Adds up partial sums [split][column].
#include "norm/row_norm.h"

template <typename W>
kernel void norm_merge(device W* out [[buffer(0)]], device const float* parts [[buffer(1)]],
                       constant RowNormParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float result[kFoldColumns], scratch[kFoldThreads];
  const uint first = g.group.x * kMergeColumns, n = min(uint(kMergeColumns), p.shape.size - first);
  fold_columns<CombineSum, 1, 1>(result, scratch, PartialLines<float>{parts + first, p.shape.size}, 0, p.splits, n, g);
  for (uint c = g.index; c < n; c += g.count) out[first + c] = W(result[c]);
}
#define MPSX_NORM_MERGE(T, TAG, ...) MPSX_KERNEL("norm_merge_" #TAG, norm_merge<T>)
MPSX_FOR_FLOAT(MPSX_NORM_MERGE)
