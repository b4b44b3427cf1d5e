// Validates an index tensor before other kernels read it, so that they need no bounds checks.
#include "index/check.h"
#include "index/params.h"

kernel void index_check(device const long* index [[buffer(0)]], constant CheckParams& p [[buffer(1)]],
                        device ErrorRecord* errors [[buffer(2)]], uint tid [[thread_position_in_grid]],
                        uint threads [[threads_per_grid]]) {
  const long low = p.negative ? -p.size : 0;
  long own[kChecked];
  MPSX_UNROLL for (uint k = 0; k < kChecked; ++k) {
    const ulong i = tid + ulong(k) * threads;
    own[k] = i < ulong(p.count) ? index[i] : 0;
  }
  MPSX_UNROLL for (uint k = 0; k < kChecked; ++k)
    if (own[k] < low || (own[k] >= p.size && tid + ulong(k) * threads < ulong(p.count)))
      return report_index(errors, p.dimension, own[k], p.size);
}
