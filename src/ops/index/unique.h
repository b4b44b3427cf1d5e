// Runs of equal rows, for unique, unique_consecutive and unique_dim.
#pragma once

#include <vector>

#include "ops/op.h"

namespace mpsx::ops {

using Triple = std::tuple<Tensor, Tensor, Tensor>;

// Runs of equal adjacent slices along the first dimension.
struct Runs {
  Tensor firsts;   // index of each run's first slice
  Tensor of;       // for each slice, the index of its run
  Tensor lengths;  // empty if not requested
  Runs(const Tensor& x, bool counts);
};

// The slices along a dimension, each flattened into a row.
struct UniqueRows {
  int64_t dim;
  std::vector<int64_t> sizes;  // sizes with `dim` moved first
  Tensor rows;                 // dense, 2-D

  UniqueRows(const Tensor& self, int64_t d);
  // Reshapes rows to slices of the original shape.
  Tensor restored(const Tensor& some) const;
  // Returns the results for an empty input.
  Triple none() const;
};

}  // namespace mpsx::ops
