// Average pooling of int64: sums of windows, divided towards zero as C++ does.
#pragma once

#include <optional>

#include "ops/op.h"

namespace mpsx::ops {

inline bool is_whole_pool(const Tensor& t) { return is_plain(t) && t.scalar_type() == at::kLong; }

// Writes `out`: the average pooling of the last `dims` dimensions (2 or 3) of `in`; the rest as avg_pool2d and
// avg_pool3d take it.
void whole_avg_pool(const Tensor& in, const Tensor& out, at::IntArrayRef kernel, at::IntArrayRef stride,
                    at::IntArrayRef padding, bool count_include_pad, std::optional<int64_t> divisor, size_t dims);

}  // namespace mpsx::ops
