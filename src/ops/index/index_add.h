// Rows added along one dimension, at an index.
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

// A 1-D index as if there were one for every line of `like` along `dim`.
Tensor expand_index(const Tensor& index, const Tensor& like, int64_t dim);

// self[…, index[k], …] += source[…, k, …] in the order of k. The index is dense, 64 bits wide and has been checked.
void add_rows(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, bool negative);

}  // namespace mpsx::ops
