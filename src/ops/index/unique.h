// Runs of equal rows, for unique, unique_consecutive and unique_dim.
#pragma once

#include <vector>

#include "ops/op.h"

namespace mpsx::ops {

using Triple = std::tuple<Tensor, Tensor, Tensor>;

// Runs of equal neighbours along the first dimension.
struct Runs {
  Tensor firsts;   // the place of the first of each run
  Tensor of;       // which run each one is of
  Tensor lengths;  // empty if nobody asked
  Runs(const Tensor& x, bool counts);
};

// The slices along a dimension, as rows.
struct UniqueRows {
  int64_t dim;
  std::vector<int64_t> sizes;  // with that dimension first
  Tensor rows;           // dense, of two dimensions

  UniqueRows(const Tensor& self, int64_t d);
  // Rows as a tensor of the given shape again.
  Tensor restored(const Tensor& some) const;
  // The result where there is nothing.
  Triple none() const;
};

}  // namespace mpsx::ops
