// Operators on complex64 composed of others, for launchers without a kernel of their own. Each returns an undefined
// tensor for other types.
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

inline bool is_plain_complex(const Tensor& t) { return t.scalar_type() == at::kComplexFloat && is_plain(t); }

// Whether complex numbers are not zero, as bool; other tensors as they are.
inline Tensor truth_of(const Tensor& t) { return is_plain_complex(t) ? t.ne(0) : t; }

Tensor complex_cumsum(const Tensor& x, int64_t dim, at::ScalarType type);
Tensor complex_cumprod(const Tensor& x, int64_t dim, at::ScalarType type);
// Over all without a dimension.
Tensor complex_prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, at::ScalarType type);
// The variance, which is real, and the mean.
std::tuple<Tensor, Tensor> complex_var_mean(const Tensor& x, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim);

}  // namespace mpsx::ops
