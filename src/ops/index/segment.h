// Sums rows by key.
#pragma once

#include "index/params.h"
#include "ops/op.h"

namespace mpsx::ops {

// Computes out[o][index[k]][:] += in[o][k][:] for all k, in order. Rows with the same index accumulate in the compute
// type and are rounded only once. `index` must be contiguous and within bounds, and `in` must be dense. `size` must be
// below 2^32, and negative indices count from it. The caller sets the fields outer, pitch, padding, by_frequency and
// add of `p`. If `add` is false, rows that are not indexed do not change.
void launch_segment_sum(const Tensor& out, const Tensor& in, const Tensor& index, int64_t size, int64_t outer,
                        int64_t row, SegmentParams p);

// Returns whether launch_segment_sum supports an index of `count` elements below `size`.
inline bool fits_segments(int64_t count, int64_t size) {
  return size < int64_t(UINT32_MAX) && count < int64_t(UINT32_MAX);
}

// Returns whether sorting the index speeds up a sum over `lines` rows. Without sorting, one thread sums each row in the
// order of the index. Sorting costs about as much as summing eight rows, but it distributes the work over all threads.
inline bool should_sort_index(int64_t lines) { return lines + 8 < runtime::target_resident_threads(); }

}  // namespace mpsx::ops
