// Runs of equal rows, for unique, unique_consecutive and unique_dim.
#pragma once

#include <vector>

#include "ops/op.h"

namespace mpsx::ops {

using Triple = std::tuple<Tensor, Tensor, Tensor>;

// Runs of equal adjacent slices along the first dimension.
struct Runs {
  Tensor firsts;   // index of the first slice of each run
  Tensor of;       // index of the run that contains each slice
  Tensor lengths;  // empty if not requested
  Runs(const Tensor& x, bool counts);
};

// The slices along a dimension, flattened into rows.
struct UniqueRows {
  int64_t dim;
  std::vector<int64_t> sizes;  // sizes with `dim` moved first
  Tensor rows;                 // dense, 2-D

  UniqueRows(const Tensor& self, int64_t d);
  // Reshapes rows back into slices of the original shape.
  Tensor restored(const Tensor& some) const;
  // Returns the result for an empty input.
  Triple none() const;
};

}  // namespace mpsx::ops
