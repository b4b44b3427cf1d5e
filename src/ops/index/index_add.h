// Adds rows at the given indices along one dimension.
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

// Expands a 1-D index along all dimensions of `like` except `dim`.
Tensor expand_index(const Tensor& index, const Tensor& like, int64_t dim);

// Computes self[…, index[k], …] += source[…, k, …] for all k, in order. `index` must be a contiguous int64 tensor and
// within bounds.
void add_rows(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, bool negative);

}  // namespace mpsx::ops
