// Slices a tensor along one dimension.
#pragma once

#include <ATen/ops/as_strided_native.h>

#include "ops/op.h"

namespace mpsx::ops {

// Like self.narrow(dim, start, length), but bypasses the dispatcher and does not check the range. `self` must be plain.
inline Tensor narrowed(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  at::DimVector sizes(self.sizes().begin(), self.sizes().end());
  sizes[size_t(dim)] = length;
  return at::native::as_strided_tensorimpl(self, sizes, self.strides(),
                                           self.storage_offset() + start * self.stride(dim));
}

}  // namespace mpsx::ops
