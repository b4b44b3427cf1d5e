// Implements operators on complex64 by composition, for launchers that have no complex kernel. For other dtypes, these
// functions return an undefined tensor.
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

inline bool is_plain_complex(const Tensor& t) { return t.scalar_type() == at::kComplexFloat && is_plain(t); }

// Converts a complex tensor to bool, which is true for nonzero elements. Returns other tensors unchanged.
inline Tensor truth_of(const Tensor& t) { return is_plain_complex(t) ? t.ne(0) : t; }

Tensor complex_cumsum(const Tensor& x, int64_t dim, at::ScalarType type);
Tensor complex_cumprod(const Tensor& x, int64_t dim, at::ScalarType type);
// Multiplies all elements if `dim` is not given.
Tensor complex_prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, at::ScalarType type);
// Returns the variance, which is real, and the mean.
std::tuple<Tensor, Tensor> complex_var_mean(const Tensor& x, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim);

}  // namespace mpsx::ops
