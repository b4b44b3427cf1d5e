// Adds rows at given indices along one dimension.
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

// Expands a 1-D index along all other dimensions of `like`.
Tensor expand_index(const Tensor& index, const Tensor& like, int64_t dim);

// Computes self[…, index[k], …] += source[…, k, …] in the order of k. `index` must be contiguous int64 and within
// bounds.
void add_rows(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, bool negative);

}  // namespace mpsx::ops
