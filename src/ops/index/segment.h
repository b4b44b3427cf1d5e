// Rows added up by key.
#pragma once

#include "index/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// out[o][index[k]][:] += in[o][k][:] for every k in order, rows with the same index added up in the compute type before
// they are rounded. `index` is dense and checked, `size` is what its negative elements count from (below 2^32), `in` is
// dense. `p` says outer, pitch, padding, by_frequency and add; with `add` false the rows that are not named stay as
// they are.
void launch_segment_sum(const Tensor& out, const Tensor& in, const Tensor& index, int64_t size, int64_t outer,
                        int64_t row, SegmentParams p);

// Whether launch_segment_sum takes an index of `count` elements below `size`.
inline bool fits_segments(int64_t count, int64_t size) {
  return size < int64_t(UINT32_MAX) && count < int64_t(UINT32_MAX);
}

// Whether sums along `lines` lines are faster by segments. Walking lines in the order of the index makes each one
// thread's work; ordering the index costs about as much as eight lines, and shares the work among all threads.
inline bool orders_index(int64_t lines) { return lines + 8 < runtime::threads_to_fill(); }

}  // namespace mpsx::ops
