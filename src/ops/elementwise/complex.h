// Composite implementations of operators on complex64, for launchers without a complex kernel. All of them return an
// undefined tensor for other dtypes.
#pragma once

#include "ops/op.h"

namespace mpsx::ops {

inline bool is_plain_complex(const Tensor& t) { return t.scalar_type() == at::kComplexFloat && is_plain(t); }

// Converts a complex tensor to bool: true where an element is nonzero. Returns other tensors unchanged.
inline Tensor truth_of(const Tensor& t) { return is_plain_complex(t) ? t.ne(0) : t; }

Tensor complex_cumsum(const Tensor& x, int64_t dim, at::ScalarType type);
Tensor complex_cumprod(const Tensor& x, int64_t dim, at::ScalarType type);
// Multiplies all elements if `dim` is not set.
Tensor complex_prod(const Tensor& x, std::optional<int64_t> dim, bool keepdim, at::ScalarType type);
// Returns the (real) variance and the mean.
std::tuple<Tensor, Tensor> complex_var_mean(const Tensor& x, at::OptionalIntArrayRef dim,
                                            const std::optional<at::Scalar>& correction, bool keepdim);

}  // namespace mpsx::ops
