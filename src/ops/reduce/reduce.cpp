// Launches the kernels in metal/reduce/reduce.def: sums, products, extrema, any and all.
#include <ATen/native/ReduceOpsUtils.h>
#include <torch/library.h>

#include <cmath>

#include "ops/elementwise/complex.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/accumulate.h"

namespace mpsx::ops {

using at::IntArrayRef;
using at::OptionalIntArrayRef;
using at::ScalarType;
using OptionalType = std::optional<ScalarType>;

DimMask mask_of(OptionalIntArrayRef dims, const Tensor& x) { return at::native::make_dim_mask(dims, x.dim()); }

bool reduce_to(const ReduceKernels& kernels, const Tensor& x, DimMask mask, bool keepdim, ScalarType type,
               const at::Scalar& init, Tensor& out, Tag second, float p) {
  const auto shape = at::native::shape_from_dim_mask(x, mask, keepdim);
  const Tensor result = prepare_output(out, shape, x.options().dtype(type), {}, x);
  if (x.numel() == 0)
    result.fill_(init);
  else
    run_reduction(kernels, result, x, mask, tag_of(x), second, p);
  return return_or_copy("reduction", result, out);
}

bool accumulate(const ReduceKernels& kernels, const Tensor& input, DimMask mask, bool keepdim, ScalarType type,
                double init, Tensor& out, float p) {
  if (input.is_complex() && !c10::isComplexType(type))  // if out= is real, the cast drops imaginary parts and warns
    return accumulate(kernels, input.to(type), mask, keepdim, type, init, out, p);
  if (!has_number_kernel(input) || tag_of(type) >= Tag::c64) return false;
  Tensor x = input;
  const bool widens = type == at::kFloat && (x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16);
  if (c10::isFloatingType(type)) {
    if (!widens && x.scalar_type() != type) x = x.to(type);
    return reduce_to(kernels, x, mask, keepdim, type, init, out, widens ? Tag::f32 : Tag::none, p);
  }
  if (type != at::kLong || !c10::isIntegralType(x.scalar_type(), true)) x = x.to(type);
  if (type == at::kLong) return reduce_to(kernels, x, mask, keepdim, type, init, out, Tag::none, p);
  Tensor wide;
  reduce_to(kernels, x, mask, keepdim, at::kLong, init, wide, Tag::none, p);
  return return_or_copy("reduction", wide.to(type), out);
}

namespace {

template <OperatorName NAME>
const ReduceKernels& kernels() {
  static const ReduceKernels k(NAME.text);
  return k;
}

ScalarType sum_type(const Tensor& x, OptionalType dtype, const Tensor& out) {
  if (out.defined()) return dtype.value_or(out.scalar_type());
  return dtype.value_or(c10::isIntegralType(x.scalar_type(), true) ? at::kLong : x.scalar_type());
}
void check_out(const char* op, const Tensor& out, ScalarType type) {
  TORCH_CHECK(accepts(out, type), op, ": expected out of type ", type, ", got ", out.scalar_type());
}

// Computes sums or means of complex numbers. `empty` is the result of an empty reduction. Returns false if no kernel
// supports the input.
bool sum_complex(const ReduceKernels& kernels, const Tensor& x, DimMask mask, bool keepdim, ScalarType type,
                 const at::Scalar& empty, Tensor& out) {
  if (!is_plain(x) || type != at::kComplexFloat || tag_of(x) == Tag::none) return false;
  return reduce_to(kernels, *to_common(x, type), mask, keepdim, type, empty, out);
}

bool sum(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype, Tensor& out) {
  const ScalarType type = sum_type(x, dtype, out);
  check_out("sum", out, type);
  const DimMask mask = mask_of(dim, x);
  return sum_complex(kernels<"sum">(), x, mask, keepdim, type, 0, out) ||
         accumulate(kernels<"sum">(), x, mask, keepdim, type, 0, out);
}
bool nansum(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype, Tensor& out) {
  if (c10::isIntegralType(x.scalar_type(), true)) return ops::sum(x, dim, keepdim, dtype, out);
  const ScalarType type = sum_type(x, dtype, out);
  check_out("nansum", out, type);
  return c10::isFloatingType(type) &&
         accumulate(kernels<"nansum">(), x, mask_of(dim, x), keepdim, type, 0, out);
}

bool mean(const Tensor& x, OptionalIntArrayRef dim, bool keepdim, OptionalType dtype, Tensor& out) {
  const ScalarType in = dtype.value_or(x.scalar_type());
  TORCH_CHECK(c10::isFloatingType(in) || c10::isComplexType(in), "mean(): could not infer output dtype. ",
              dtype ? "Optional dtype" : "Input dtype", " must be either a floating point or complex dtype. Got: ", in);
  const ScalarType type = out.defined() ? dtype.value_or(out.scalar_type()) : in;
  TORCH_CHECK(!c10::isIntegralType(type, true), "mean: result type ", in,
              " can't be cast to the desired output type ", type);
  check_out("mean", out, type);
  const DimMask mask = mask_of(dim, x);
  return sum_complex(kernels<"mean">(), x, mask, keepdim, type, c10::complex<double>(NAN, NAN), out) ||
         accumulate(kernels<"mean">(), x, mask, keepdim, type, NAN, out);
}

bool product(const Tensor& x, std::optional<int64_t> dim, bool keepdim, OptionalType dtype, Tensor& out) {
  const ScalarType type = sum_type(x, dtype, out);
  check_out("prod", out, type);
  if (const Tensor z = complex_prod(x, dim, keepdim, type); z.defined()) return return_or_copy("prod", z, out);
  const DimMask mask = dim ? mask_of(*dim, x) : mask_of({}, x);
  return accumulate(kernels<"prod">(), x, mask, keepdim, type, 1, out);
}
bool prod(const Tensor& x, OptionalType dtype, Tensor& out) { return product(x, std::nullopt, false, dtype, out); }
bool prod_dim(const Tensor& x, int64_t dim, bool keepdim, OptionalType dtype, Tensor& out) {
  return product(x, dim, keepdim, dtype, out);
}

// amax and amin along dimensions, and max and min over all elements.
template <OperatorName NAME>
bool extremum(const Tensor& x, IntArrayRef dim, bool keepdim, Tensor& out) {
  if (!has_number_kernel(x)) return false;
  check_extremum((std::string(NAME.text) + "()").c_str(), x, dim, out);
  return reduce_to(kernels<NAME>(), x, mask_of(dim, x), keepdim, x.scalar_type(), 0, out);
}
template <OperatorName NAME, OperatorName KERNEL>
bool extremum_of_all(const Tensor& x, Tensor& out) {
  if (!has_number_kernel(x) || !accepts(out, x.scalar_type())) return false;
  TORCH_CHECK(x.numel() > 0, NAME.text,
              "(): Expected reduction dim to be specified for input.numel() == 0. "
              "Specify the reduction dim with the 'dim' argument.");
  return reduce_to(kernels<KERNEL>(), x, mask_of({}, x), false, x.scalar_type(), 0, out);
}

// any and all return uint8 for uint8 inputs, and bool otherwise.
template <OperatorName NAME>
bool logical(const Tensor& z, OptionalIntArrayRef dim, bool keepdim, Tensor& out) {
  const Tensor x = truth_of(z);
  if (!has_number_kernel(x)) return false;
  const ScalarType type = x.scalar_type() == at::kByte ? at::kByte : at::kBool;
  TORCH_CHECK(!out.defined() || out.scalar_type() == at::kBool || out.scalar_type() == at::kByte, NAME.text,
              " only supports bool tensor for result, got: ", out.scalar_type());
  return reduce_to(kernels<NAME>(), x, mask_of(dim, x), keepdim, type, NAME.text == std::string_view("all"), out);
}
template <OperatorName NAME>
bool logical_of_all(const Tensor& x, Tensor& out) {
  return logical<NAME>(x, {}, false, out);
}
template <OperatorName NAME>
bool logical_along(const Tensor& x, int64_t dim, bool keepdim, Tensor& out) {
  return logical<NAME>(x, dim, keepdim, out);
}
// An empty list of dimensions means that no dimension is reduced.
template <OperatorName NAME>
bool logical_dims(const Tensor& z, OptionalIntArrayRef dim, bool keepdim, Tensor& out) {
  if (!dim || !dim->empty()) return logical<NAME>(z, dim, keepdim, out);
  const Tensor x = truth_of(z);
  return has_number_kernel(x) && !out.defined() &&
         return_or_copy(NAME.text, x.ne(0).to(x.scalar_type() == at::kByte ? at::kByte : at::kBool), out);
}

bool count_nonzero(const Tensor& z, IntArrayRef dim, Tensor& out) {
  const Tensor x = truth_of(z);
  return has_number_kernel(x) && accepts(out, at::kLong) &&
         reduce_to(kernels<"count_nonzero">(), x, mask_of(dim, x), false, at::kLong, 0, out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"sum.dim_IntList", &sum>(m);
  op<"nansum", &nansum>(m);
  op<"mean.dim", &mean>(m);
  op<"prod", &prod>(m);
  op<"prod.dim_int", &prod_dim>(m);
  op<"amax", &extremum<"amax">>(m);
  op<"amin", &extremum<"amin">>(m);
  op<"max", &extremum_of_all<"max", "amax">>(m);
  op<"min", &extremum_of_all<"min", "amin">>(m);
  op<"any", &logical_of_all<"any">>(m);
  op<"any.dim", &logical_along<"any">>(m);
  op<"any.dims", &logical_dims<"any">>(m);
  op<"all", &logical_of_all<"all">>(m);
  op<"all.dim", &logical_along<"all">>(m);
  op<"all.dims", &logical_dims<"all">>(m);
  op<"count_nonzero.dim_IntList", &count_nonzero>(m);
}

}  // namespace mpsx::ops
