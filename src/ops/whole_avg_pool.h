// Average pooling of int64, which has no kernel of its own: sums of windows, divided towards zero as C++ does.
#pragma once

#include <optional>

#include "ops/op.h"

namespace mpsx::ops {

inline bool is_whole_pool(const Tensor& t) { return is_plain(t) && t.scalar_type() == at::kLong; }

// The average pooling of the last `dims` dimensions of `in` into sizes `out`; the rest as avg_pool2d and avg_pool3d
// take it.
Tensor whole_avg_pool(const Tensor& in, at::IntArrayRef out, at::IntArrayRef kernel, at::IntArrayRef stride,
                      at::IntArrayRef padding, bool count_include_pad, std::optional<int64_t> divisor, size_t dims);

}  // namespace mpsx::ops
