// Launches the kernels in metal/reduce/arg.metal: argmax, argmin, and max and min along a dimension.
#include <ATen/native/ReduceOpsUtils.h>
#include <torch/library.h>

#include "ops/reduce/reduce_plan.h"
#include "ops/selected.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using OptionalDim = std::optional<int64_t>;

// `indices` and `values` must be contiguous. `values` may be undefined.
void run(const ReduceKernels& kernels, const Tensor& indices, const Tensor& values, const Tensor& x, DimMask mask) {
  ReducePlan plan = plan_reduction(x, mask, ReduceOrder::kept);
  plan.params.both = values.defined();
  const Tensor parts = reduce_parts(plan, 2 * sizeof(int64_t));  // a key of at most 64 bits, and an index
  run_plan(kernels, plan, {indices, values}, parts, tag_of(x));
}

// argmax or argmin (NAME), over all elements or along a dimension.
template <OperatorName NAME>
const ReduceKernels& arg_kernels() {
  static const ReduceKernels kernels(NAME.text);
  return kernels;
}
template <OperatorName NAME>
bool arg(const Tensor& x, OptionalDim dim, bool keepdim, Tensor& out) {
  if (!has_number_kernel(x)) return false;
  TORCH_CHECK(accepts(out, at::kLong), NAME.text, ": expected out of type Long, got ", out.scalar_type());
  if (x.numel() == 0) {
    TORCH_CHECK_INDEX(dim, NAME.text,
                      "(): Expected reduction dim to be specified for input.numel() == 0. "
                      "Specify the reduction dim with the 'dim' argument.");
    at::native::zero_numel_check_dims(x, at::maybe_wrap_dim(*dim, x.dim()), NAME.text);
  }
  const DimMask mask =
      at::native::make_dim_mask(dim ? at::OptionalIntArrayRef(*dim) : at::OptionalIntArrayRef(), x.dim());
  const Tensor result =
      prepare_output(out, at::native::shape_from_dim_mask(x, mask, keepdim), x.options().dtype(at::kLong), {}, x);
  if (x.numel() > 0) run(arg_kernels<NAME>(), result, Tensor(), x, mask);
  return return_or_copy(NAME.text, result, out);
}

// max or min (NAME) along a dimension, with indices.
template <OperatorName NAME, OperatorName ARG>
bool extremum_and_index(const Tensor& x, int64_t given, bool keepdim, Tensor& values, Tensor& indices) {
  if (!has_number_kernel(x)) return false;
  check_selected(NAME.text, x, values, indices);
  const int64_t dim = at::maybe_wrap_dim(given, x.dim());
  if (x.numel() == 0) at::native::zero_numel_check_dims(x, dim, NAME.text);
  const DimMask mask = at::native::make_dim_mask(dim, x.dim());
  const auto shape = at::native::shape_from_dim_mask(x, mask, keepdim);
  const Tensor extrema = prepare_output(values, shape, x.options().dtype(x.scalar_type()), {}, x);
  const Tensor positions = prepare_output(indices, shape, x.options().dtype(at::kLong), {}, x);
  if (x.numel() > 0) run(arg_kernels<ARG>(), positions, extrema, x, mask);
  return return_or_copy(NAME.text, extrema, values) && return_or_copy(NAME.text, positions, indices);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"argmax", &arg<"argmax">>(m);
  op<"argmin", &arg<"argmin">>(m);
  op<"max.dim", &extremum_and_index<"max", "argmax">>(m);
  op<"min.dim", &extremum_and_index<"min", "argmin">>(m);
}

}  // namespace mpsx::ops
