// Launchers of metal/reduce/reduce.def: sums, products, extrema, any, all, norms.
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/view_as_real_native.h>
#include <torch/library.h>

#include <cmath>

#include "ops/elementwise/complex.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/reduce_plan.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::Scalar;
using at::ScalarType;
using OptionalType = std::optional<ScalarType>;

// No dimensions: all of them.
DimMask mask_of(OptionalIntArrayRef dims, const Tensor& x) { return at::native::make_dim_mask(dims, x.dim()); }

// Reduces `x` into a tensor of `type`, or into `out`. `identity`: the result where nothing is reduced.
Tensor reduce_to(const ReduceKernels& kernels, const Tensor& x, DimMask mask, bool keepdim, ScalarType type,
                 double identity, const Tensor& out, Tag second = Tag::none, float p = 0) {
  const auto shape = at::native::shape_from_dim_mask(x, mask, keepdim);
  const Tensor result = reduce_target(out, shape, x, type);
  if (x.numel() == 0)
    result.fill_(identity);
  else
    run_reduction(kernels, result, x, mask, tag_of(x), second, p);
  reduce_deliver(result, out);
  return out.defined() ? out : result;
}

// Reductions whose result is of the input's type, or of `type`: sums, products, means, norms. Integers add up in long.
Tensor accumulate(const ReduceKernels& kernels, const Tensor& input, DimMask mask, bool keepdim, ScalarType type,
                  double identity, const Tensor& out, float p = 0) {
  Tensor x = input;
  const bool widens = type == at::kFloat && (x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16);
  if (c10::isFloatingType(type)) {
    if (!widens && x.scalar_type() != type) x = x.to(type);
    return reduce_to(kernels, x, mask, keepdim, type, identity, out, widens ? Tag::f32 : Tag::none, p);
  }
  if (type != at::kLong || !c10::isIntegralType(x.scalar_type(), true)) x = x.to(type);
  if (type == at::kLong) return reduce_to(kernels, x, mask, keepdim, type, identity, out, Tag::none, p);
  const Tensor wide = reduce_to(kernels, x, mask, keepdim, at::kLong, identity, Tensor(), Tag::none, p);
  if (!out.defined()) return wide.to(type);
  at::native::resize_output(out, wide.sizes());
  return out.copy_(wide);
}

ScalarType sum_type(const Tensor& x, OptionalType dtype, const Tensor& out) {
  if (out.defined()) return dtype.value_or(out.scalar_type());
  return dtype.value_or(c10::isIntegralType(x.scalar_type(), true) ? at::kLong : x.scalar_type());
}
bool types_fit(const Tensor& x, ScalarType type) { return has_number_kernel(x) && tag_of(type) < Tag::c64; }

#define REDUCTION(NAME)                        \
  const ReduceKernels& NAME##_kernels() {      \
    static const ReduceKernels kernels(#NAME); \
    return kernels;                            \
  }
REDUCTION(sum)
REDUCTION(nansum)
REDUCTION(mean)
REDUCTION(prod)
REDUCTION(amax)
REDUCTION(amin)
REDUCTION(any)
REDUCTION(all)
REDUCTION(count_nonzero)
REDUCTION(norm_0)
REDUCTION(norm_1)
REDUCTION(norm_2)
REDUCTION(norm_p)
REDUCTION(norm_max)
REDUCTION(norm_min)

// Sums of complex numbers are those of both halves, which are a last dimension of two. Undefined: not these types.
Tensor sum_of_halves(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, ScalarType type) {
  if (!is_plain(x) || x.dim() > 63 || type != at::kComplexFloat || tag_of(x) == Tag::none) return Tensor();
  const auto z = to_common(x, type);
  if (z->dim() == 0) return z->is_same(x) ? z->clone() : *z;
  const DimMask mask = mask_of(dim, *z) & DimMask((uint64_t(1) << z->dim()) - 1);  // without the halves
  const Tensor sums = at::empty(at::native::shape_from_dim_mask(*z, mask, keepdim), z->options());
  if (z->numel() == 0) return sums.zero_();
  run_reduction(sum_kernels(), sums, at::native::view_as_real(*z), mask, Tag::f32, Tag::none);
  return sums;
}

Tensor sum_dim(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype) {
  const ScalarType type = sum_type(x, dtype, Tensor());
  if (const Tensor z = sum_of_halves(x, dim, keepdim, type); z.defined()) return z;
  if (!types_fit(x, type)) return fallback_call<Tensor>("aten::sum", "dim_IntList", x, dim, keepdim, dtype);
  return accumulate(sum_kernels(), x, mask_of(dim, x), keepdim, type, 0, Tensor());
}
Tensor& sum_out(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype, Tensor& out) {
  const ScalarType type = sum_type(x, dtype, out);
  if (out.scalar_type() == type)
    if (const Tensor z = sum_of_halves(x, dim, keepdim, type); z.defined())
      return at::native::resize_output(out, z.sizes()), out.copy_(z);
  if (!types_fit(x, type)) return fallback_call<Tensor>("aten::sum", "IntList_out", x, dim, keepdim, dtype, out), out;
  TORCH_CHECK(out.scalar_type() == type, "sum: expected out of type ", type, ", got ", out.scalar_type());
  return accumulate(sum_kernels(), x, mask_of(dim, x), keepdim, type, 0, out), out;
}
Tensor nansum(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype) {
  if (c10::isIntegralType(x.scalar_type(), true)) return sum_dim(x, dim, keepdim, dtype);
  const ScalarType type = sum_type(x, dtype, Tensor());
  if (!types_fit(x, type) || !c10::isFloatingType(type))
    return fallback_call<Tensor>("aten::nansum", "", x, dim, keepdim, dtype);
  return accumulate(nansum_kernels(), x, mask_of(dim, x), keepdim, type, 0, Tensor());
}
Tensor& nansum_out(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype, Tensor& out) {
  if (c10::isIntegralType(x.scalar_type(), true)) return sum_out(x, dim, keepdim, dtype, out);
  const ScalarType type = sum_type(x, dtype, out);
  if (!types_fit(x, type) || !c10::isFloatingType(type))
    return fallback_call<Tensor>("aten::nansum", "out", x, dim, keepdim, dtype, out), out;
  TORCH_CHECK(out.scalar_type() == type, "nansum: expected out of type ", type, ", got ", out.scalar_type());
  return accumulate(nansum_kernels(), x, mask_of(dim, x), keepdim, type, 0, out), out;
}

ScalarType mean_type(const Tensor& x, OptionalType dtype) {
  const ScalarType type = dtype.value_or(x.scalar_type());
  TORCH_CHECK(c10::isFloatingType(type) || c10::isComplexType(type), "mean(): could not infer output dtype. ",
              dtype ? "Optional dtype" : "Input dtype",
              " must be either a floating point or complex dtype. Got: ", type);
  return type;
}
Tensor mean_dim(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype) {
  const ScalarType type = mean_type(x, dtype);
  if (const Tensor z = sum_of_halves(x, dim, keepdim, type); z.defined()) {
    const double count = double(x.numel()) / double(z.numel());
    at::view_as_real(z).div_(count);
    return z;
  }
  if (!types_fit(x, type)) return fallback_call<Tensor>("aten::mean", "dim", x, dim, keepdim, dtype);
  return accumulate(mean_kernels(), x, mask_of(dim, x), keepdim, type, NAN, Tensor());
}
Tensor& mean_out(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype, Tensor& out) {
  const ScalarType type = mean_type(x, dtype);
  if (!types_fit(x, type)) return fallback_call<Tensor>("aten::mean", "out", x, dim, keepdim, dtype, out), out;
  TORCH_CHECK(out.scalar_type() == type, "mean: expected out of type ", type, ", got ", out.scalar_type());
  return accumulate(mean_kernels(), x, mask_of(dim, x), keepdim, type, NAN, out), out;
}

Tensor prod(const Tensor& x, OptionalType dtype) {
  const ScalarType type = sum_type(x, dtype, Tensor());
  if (const Tensor z = complex_prod(x, std::nullopt, false, type); z.defined()) return z;
  if (!types_fit(x, type)) return fallback_call<Tensor>("aten::prod", "", x, dtype);
  return accumulate(prod_kernels(), x, mask_of({}, x), false, type, 1, Tensor());
}
Tensor prod_dim(const Tensor& x, int64_t dim, bool keepdim, OptionalType dtype) {
  const ScalarType type = sum_type(x, dtype, Tensor());
  if (const Tensor z = complex_prod(x, dim, keepdim, type); z.defined()) return z;
  if (!types_fit(x, type)) return fallback_call<Tensor>("aten::prod", "dim_int", x, dim, keepdim, dtype);
  return accumulate(prod_kernels(), x, mask_of(dim, x), keepdim, type, 1, Tensor());
}
Tensor& prod_out(const Tensor& x, int64_t dim, bool keepdim, OptionalType dtype, Tensor& out) {
  const ScalarType type = sum_type(x, dtype, out);
  if (!types_fit(x, type)) return fallback_call<Tensor>("aten::prod", "int_out", x, dim, keepdim, dtype, out), out;
  TORCH_CHECK(out.scalar_type() == type, "prod: expected out of type ", type, ", got ", out.scalar_type());
  return accumulate(prod_kernels(), x, mask_of(dim, x), keepdim, type, 1, out), out;
}

// amax, amin, and max and min over everything.
#define EXTREMUM(NAME, ALL_NAME)                                                                               \
  Tensor NAME##_dims(const Tensor& x, IntArrayRef dim, bool keepdim) {                                         \
    if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::" #NAME, "", x, dim, keepdim);              \
    check_extremum(#NAME "()", x, dim, Tensor());                                                              \
    return reduce_to(NAME##_kernels(), x, mask_of(dim, x), keepdim, x.scalar_type(), 0, Tensor());             \
  }                                                                                                            \
  Tensor& NAME##_out(const Tensor& x, IntArrayRef dim, bool keepdim, Tensor& out) {                            \
    if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::" #NAME, "out", x, dim, keepdim, out), out; \
    check_extremum(#NAME "()", x, dim, out);                                                                   \
    return reduce_to(NAME##_kernels(), x, mask_of(dim, x), keepdim, x.scalar_type(), 0, out), out;             \
  }                                                                                                            \
  Tensor ALL_NAME##_all(const Tensor& x) {                                                                     \
    if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::" #ALL_NAME, "", x);                        \
    TORCH_CHECK(x.numel() > 0, #ALL_NAME                                                                       \
                "(): Expected reduction dim to be specified for input.numel() == 0. "                          \
                "Specify the reduction dim with the 'dim' argument.");                                         \
    return reduce_to(NAME##_kernels(), x, mask_of({}, x), false, x.scalar_type(), 0, Tensor());                \
  }                                                                                                            \
  Tensor& ALL_NAME##_unary_out(const Tensor& x, Tensor& out) {                                                 \
    const Tensor result = ALL_NAME##_all(x);                                                                   \
    TORCH_CHECK(c10::canCast(x.scalar_type(), out.scalar_type()), #ALL_NAME ": result type ", x.scalar_type(), \
                " can't be cast to the desired output type ", out.scalar_type());                              \
    at::native::resize_output(out, {});                                                                        \
    return out.copy_(result), out;                                                                             \
  }
EXTREMUM(amax, max)
EXTREMUM(amin, min)

// any and all: bool, but uint8 for uint8.
ScalarType logical_type(const char* name, const Tensor& x, const Tensor& out) {
  const ScalarType type = x.scalar_type() == at::kByte ? at::kByte : at::kBool;
  TORCH_CHECK(!out.defined() || out.scalar_type() == at::kBool || out.scalar_type() == at::kByte, name,
              " only supports bool tensor for result, got: ", out.scalar_type());
  return type;
}
#define LOGICAL(NAME, IDENTITY)                                                                                \
  Tensor NAME##_to(const Tensor& x, DimMask mask, bool keepdim, const Tensor& out) {                           \
    return reduce_to(NAME##_kernels(), x, mask, keepdim, logical_type(#NAME, x, out), IDENTITY, out);          \
  }                                                                                                            \
  Tensor NAME##_all(const Tensor& z) {                                                                         \
    const Tensor x = truth_of(z);                                                                              \
    if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::" #NAME, "", x);                            \
    return NAME##_to(x, mask_of({}, x), false, Tensor());                                                      \
  }                                                                                                            \
  Tensor& NAME##_all_out(const Tensor& z, Tensor& out) {                                                       \
    const Tensor x = truth_of(z);                                                                              \
    if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::" #NAME, "all_out", x, out), out;           \
    return NAME##_to(x, mask_of({}, x), false, out), out;                                                      \
  }                                                                                                            \
  Tensor NAME##_dim(const Tensor& z, int64_t dim, bool keepdim) {                                              \
    const Tensor x = truth_of(z);                                                                              \
    if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::" #NAME, "dim", x, dim, keepdim);           \
    return NAME##_to(x, mask_of(dim, x), keepdim, Tensor());                                                   \
  }                                                                                                            \
  Tensor& NAME##_out(const Tensor& z, int64_t dim, bool keepdim, Tensor& out) {                                \
    const Tensor x = truth_of(z);                                                                              \
    if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::" #NAME, "out", x, dim, keepdim, out), out; \
    return NAME##_to(x, mask_of(dim, x), keepdim, out), out;                                                   \
  }                                                                                                            \
  Tensor NAME##_dims(const Tensor& z, OptionalIntArrayRef dim, bool keepdim) {                                 \
    const Tensor x = truth_of(z);                                                                              \
    if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::" #NAME, "dims", x, dim, keepdim);          \
    if (dim && dim->empty()) return x.ne(0).to(logical_type(#NAME, x, Tensor()));                              \
    return NAME##_to(x, mask_of(dim, x), keepdim, Tensor());                                                   \
  }                                                                                                            \
  Tensor& NAME##_dims_out(const Tensor& z, OptionalIntArrayRef dim, bool keepdim, Tensor& out) {               \
    const Tensor x = truth_of(z);                                                                              \
    if (!has_number_kernel(x) || (dim && dim->empty()))                                                        \
      return fallback_call<Tensor>("aten::" #NAME, "dims_out", x, dim, keepdim, out), out;                     \
    return NAME##_to(x, mask_of(dim, x), keepdim, out), out;                                                   \
  }
LOGICAL(any, 0)
LOGICAL(all, 1)

Tensor count_nonzero(const Tensor& z, IntArrayRef dim) {
  const Tensor x = truth_of(z);
  if (!has_number_kernel(x)) return fallback_call<Tensor>("aten::count_nonzero", "dim_IntList", x, dim);
  return reduce_to(count_nonzero_kernels(), x, mask_of(dim, x), false, at::kLong, 0, Tensor());
}

const ReduceKernels& norm_kernels(double p) {
  if (p == 2) return norm_2_kernels();
  if (p == 1) return norm_1_kernels();
  if (p == 0) return norm_0_kernels();
  if (std::isinf(p)) return p > 0 ? norm_max_kernels() : norm_min_kernels();
  return norm_p_kernels();
}
// Whether kernels do it: the CPU has the words for what is wrong with the others.
bool norm_fits(const Tensor& x, const Scalar& p, OptionalIntArrayRef dim, ScalarType type) {
  if (!types_fit(x, type) || !c10::isFloatingType(x.scalar_type()) || !c10::isFloatingType(type) || p.isComplex() ||
      c10::promoteTypes(x.scalar_type(), type) != type)
    return false;
  if (x.numel() > 0 || (p.toDouble() >= 0 && !std::isinf(p.toDouble()))) return true;
  const DimMask mask = mask_of(dim, x);  // without an element there is no largest and no smallest
  for (int64_t d = 0; d < x.dim(); ++d)
    if (mask[size_t(d)] && x.size(d) == 0) return false;
  return true;
}
Tensor vector_norm(const Tensor& x, const Scalar& p, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype) {
  if (is_plain_complex(x) && (!dtype || *dtype == x.scalar_type()) && x.numel() > 0)
    return vector_norm(at::abs(x), p, dim, keepdim, {});
  const ScalarType type = dtype.value_or(x.scalar_type());
  if (!norm_fits(x, p, dim, type))
    return fallback_call<Tensor>("aten::linalg_vector_norm", "", x, p, dim, keepdim, dtype);
  const double e = p.toDouble();
  return accumulate(norm_kernels(e), x, mask_of(dim, x), keepdim, type, 0, Tensor(), float(e));
}
Tensor& vector_norm_out(const Tensor& x, const Scalar& p, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype,
                        Tensor& out) {
  const ScalarType type = dtype.value_or(x.scalar_type());
  if (!norm_fits(x, p, dim, type) || out.scalar_type() != type)
    return fallback_call<Tensor>("aten::linalg_vector_norm", "out", x, p, dim, keepdim, dtype, out), out;
  const double e = p.toDouble();
  return accumulate(norm_kernels(e), x, mask_of(dim, x), keepdim, type, 0, out, float(e)), out;
}
Tensor norm_dim(const Tensor& x, const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim) {
  if (is_plain_complex(x) && x.numel() > 0) return vector_norm(x, p.value_or(2), dim, keepdim, {});
  if (!norm_fits(x, p.value_or(2), dim, x.scalar_type()))
    return fallback_call<Tensor>("aten::norm", "ScalarOpt_dim", x, p, dim, keepdim);
  return vector_norm(x, p.value_or(2), dim, keepdim, {});
}
Tensor& norm_out(const Tensor& x, const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim, Tensor& out) {
  if (!norm_fits(x, p.value_or(2), dim, x.scalar_type()) || out.scalar_type() != x.scalar_type())
    return fallback_call<Tensor>("aten::norm", "out", x, p, dim, keepdim, out), out;
  return vector_norm_out(x, p.value_or(2), dim, keepdim, {}, out);
}
Tensor& norm_dtype_out(const Tensor& x, const std::optional<Scalar>& p, IntArrayRef dim, bool keepdim, ScalarType dtype,
                       Tensor& out) {
  if (!norm_fits(x, p.value_or(2), dim, dtype) || out.scalar_type() != dtype)
    return fallback_call<Tensor>("aten::norm", "dtype_out", x, p, dim, keepdim, dtype, out), out;
  return vector_norm_out(x, p.value_or(2), dim, keepdim, dtype, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("sum.dim_IntList", &sum_dim);
  m.impl("sum.IntList_out", &sum_out);
  m.impl("nansum", &nansum);
  m.impl("nansum.out", &nansum_out);
  m.impl("mean.dim", &mean_dim);
  m.impl("mean.out", &mean_out);
  m.impl("prod", &prod);
  m.impl("prod.dim_int", &prod_dim);
  m.impl("prod.int_out", &prod_out);
  m.impl("amax", &amax_dims);
  m.impl("amax.out", &amax_out);
  m.impl("amin", &amin_dims);
  m.impl("amin.out", &amin_out);
  m.impl("max", &max_all);
  m.impl("max.unary_out", &max_unary_out);
  m.impl("min", &min_all);
  m.impl("min.unary_out", &min_unary_out);
#define LOGICAL_FORMS(NAME)                  \
  m.impl(#NAME, &NAME##_all);                \
  m.impl(#NAME ".all_out", &NAME##_all_out); \
  m.impl(#NAME ".dim", &NAME##_dim);         \
  m.impl(#NAME ".out", &NAME##_out);         \
  m.impl(#NAME ".dims", &NAME##_dims);       \
  m.impl(#NAME ".dims_out", &NAME##_dims_out);
  LOGICAL_FORMS(any)
  LOGICAL_FORMS(all)
  m.impl("count_nonzero.dim_IntList", &count_nonzero);
  m.impl("linalg_vector_norm", &vector_norm);
  m.impl("linalg_vector_norm.out", &vector_norm_out);
  m.impl("norm.ScalarOpt_dim", &norm_dim);
  m.impl("norm.out", &norm_out);
  m.impl("norm.dtype_out", &norm_dtype_out);
}

}  // namespace mpsx::ops
