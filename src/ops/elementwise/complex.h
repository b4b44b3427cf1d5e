// Operators on complex64 that are others, on both halves or on the numbers as a whole, for the launchers that have no
// kernel of their own for it. Each returns an undefined tensor where it is not meant.
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

inline bool is_plain_complex(const Tensor& t) { return t.scalar_type() == at::kComplexFloat && is_plain(t); }

// What is not zero, as bool; other tensors as they are.
inline Tensor truth_of(const Tensor& t) { return is_plain_complex(t) ? t.ne(0) : t; }

Tensor complex_cumsum(const Tensor& x, int64_t dim, at::ScalarType type);
Tensor complex_cumprod(const Tensor& x, int64_t dim, at::ScalarType type);
// Over all without a dimension.
Tensor complex_prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, at::ScalarType type);
// The variance, which is real, and the mean.
std::tuple<Tensor, Tensor> complex_var_mean(const Tensor& x, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim);

}  // namespace mpsx::ops
