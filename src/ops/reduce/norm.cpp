// linalg.vector_norm and norm. The kernels are the norms in metal/reduce/reduce.def.
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/abs.h>
#include <torch/library.h>

#include <cmath>

#include "ops/elementwise/complex.h"
#include "ops/reduce/accumulate.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Scalar;
using at::ScalarType;

const ReduceKernels& norm_kernels(double p) {
  static const ReduceKernels norm_0("norm_0"), norm_1("norm_1"), norm_2("norm_2"), norm_p("norm_p"),
      norm_max("norm_max"), norm_min("norm_min");
  if (std::isinf(p)) return p > 0 ? norm_max : norm_min;
  return p == 2 ? norm_2 : p == 1 ? norm_1 : p == 0 ? norm_0 : norm_p;
}

// Returns whether kernels support the arguments. For other arguments, the CPU operator reports the error.
bool norm_fits(const Tensor& x, const Scalar& p, OptionalIntArrayRef dim, ScalarType type) {
  if (!c10::isFloatingType(x.scalar_type()) || !c10::isFloatingType(type) || p.isComplex() ||
      c10::promoteTypes(x.scalar_type(), type) != type)
    return false;
  if (x.numel() > 0 || (p.toDouble() >= 0 && !std::isinf(p.toDouble()))) return true;
  const DimMask mask = mask_of(dim, x);  // extrema need at least one element
  for (int64_t d = 0; d < x.dim(); ++d)
    if (mask[size_t(d)] && x.size(d) == 0) return false;
  return true;
}

// Returns whether every result has a single input element. Its norm is the absolute value, which cannot overflow.
bool is_single(const Tensor& x, const DimMask& mask) {
  for (int64_t d = 0; d < x.dim(); ++d)
    if (mask[size_t(d)] && x.size(d) != 1) return false;
  return true;
}

bool vector_norm(const Tensor& x, const Scalar& p, OptionalIntArrayRef dim, bool keepdim,
                 std::optional<ScalarType> dtype, Tensor& out) {
  if (is_plain_complex(x) && (!dtype || *dtype == x.scalar_type()) && x.numel() > 0)
    return vector_norm(at::abs(x), p, dim, keepdim, {}, out);
  const ScalarType type = dtype.value_or(x.scalar_type());
  const ScalarType result = c10::toRealValueType(type);
  TORCH_CHECK(accepts(out, result), "linalg_vector_norm: Expected out tensor to have dtype ", result, ", but got ",
              out.scalar_type(), " instead");
  if (!norm_fits(x, p, dim, type)) return false;
  if (const DimMask mask = mask_of(dim, x); p.toDouble() != 0 && is_single(x, mask)) {
    const auto shape = at::native::shape_from_dim_mask(x, mask, keepdim);
    return return_or_copy("linalg_vector_norm", at::abs(x).to(result).reshape(shape), out);
  }
  return accumulate(norm_kernels(p.toDouble()), x, mask_of(dim, x), keepdim, type, 0, out, float(p.toDouble()));
}
bool norm(const Tensor& x, const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim, Tensor& out) {
  return vector_norm(x, p.value_or(2), dim, keepdim, {}, out);
}
bool norm_dtype(const Tensor& x, const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim, ScalarType dtype,
                Tensor& out) {
  return vector_norm(x, p.value_or(2), dim, keepdim, dtype, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"linalg_vector_norm", &vector_norm>(m);
  op<"norm.ScalarOpt_dim", &norm>(m);
  op<"norm.ScalarOpt_dim_dtype", &norm_dtype>(m);
}

}  // namespace mpsx::ops
