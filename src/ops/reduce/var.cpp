// Launches the kernels in metal/reduce/var.metal: var, std, var_mean, std_mean.
#include <ATen/native/ReduceOpsUtils.h>
#include <torch/library.h>

#include "ops/elementwise/complex.h"
#include "ops/reduce/reduce_plan.h"

namespace mpsx::ops {
namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using Correction = std::optional<Scalar>;
using Two = std::tuple<Tensor, Tensor>;

enum : uint32_t { kMean = 1, kRoot = 2 };  // must match kVarMean and kVarRoot in the kernels

// Stores the variance in `var` or, if `flags` contains kRoot, the standard deviation. If `mean` is defined, stores the
// mean there.
void run(const Tensor& x, DimMask mask, const Correction& correction, uint32_t flags, const Tensor& var,
         const Tensor& mean) {
  static const ReduceKernels kernels("var");
  if (x.numel() == 0) {
    var.fill_(NAN);
    if (mean.defined()) mean.fill_(NAN);
    return;
  }
  ReducePlan plan = plan_reduction(x, mask);
  plan.params.both = flags | (mean.defined() ? uint32_t(kMean) : 0);
  plan.params.p = correction.value_or(1).to<float>();
  const Tensor parts = reduce_parts(plan, 3 * sizeof(float), 1);  // the pivots are in the extra row
  run_plan(kernels, plan, {var, mean}, parts, tag_of(x));
}

// Like PyTorch, warns if there are no degrees of freedom when `count` elements are reduced to `results` values.
void check_freedom(const char* name, int64_t count, int64_t results, const Correction& correction) {
  const int64_t each = results == 0 ? 0 : count / results;
  if (double(each) - correction.value_or(1).toDouble() <= 0)
    TORCH_WARN(name,
               "(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor "
               "(input numel divided by output numel).");
}

template <OperatorName NAME, uint32_t FLAGS>
bool variance(const Tensor& x, OptionalIntArrayRef dim, const Correction& correction, bool keepdim, Tensor& out) {
  if (is_plain_complex(x)) {
    if (!accepts(out, at::kFloat)) return false;
    const Tensor var = std::get<0>(complex_var_mean(x, dim, correction, keepdim));
    return return_or_copy(NAME.text, FLAGS & kRoot ? var.sqrt() : var, out);
  }
  if (!has_float_kernel(x) || !accepts(out, x.scalar_type())) return false;
  const DimMask mask = at::native::make_dim_mask(dim, x.dim());
  const Tensor var =
      prepare_output(out, at::native::shape_from_dim_mask(x, mask, keepdim), x.options().dtype(x.scalar_type()), {}, x);
  check_freedom(NAME.text, x.numel(), var.numel(), correction);
  run(x, mask, correction, FLAGS, var, Tensor());
  return return_or_copy(NAME.text, var, out);
}

template <OperatorName NAME, uint32_t FLAGS>
bool variance_and_mean(const Tensor& x, OptionalIntArrayRef dim, const Correction& correction, bool keepdim,
                       Tensor& out, Tensor& mean) {
  if (is_plain_complex(x)) {
    const auto [var, z_mean] = complex_var_mean(x, dim, correction, keepdim);
    return return_or_copy(NAME.text, FLAGS & kRoot ? var.sqrt() : var, out) && return_or_copy(NAME.text, z_mean, mean);
  }
  if (!has_float_kernel(x) || !accepts(out, x.scalar_type()) || !accepts(mean, x.scalar_type())) return false;
  const DimMask mask = at::native::make_dim_mask(dim, x.dim());
  const auto shape = at::native::shape_from_dim_mask(x, mask, keepdim);
  const Tensor var = prepare_output(out, shape, x.options().dtype(x.scalar_type()), {}, x);
  const Tensor means = prepare_output(mean, shape, x.options().dtype(x.scalar_type()), {}, x);
  check_freedom(NAME.text, x.numel(), var.numel(), correction);
  run(x, mask, correction, FLAGS, var, means);
  return return_or_copy(NAME.text, var, out) && return_or_copy(NAME.text, means, mean);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"var.correction", &variance<"var", 0>>(m);
  op<"std.correction", &variance<"std", kRoot>>(m);
  op<"var_mean.correction", &variance_and_mean<"var_mean", 0>>(m);
  op<"std_mean.correction", &variance_and_mean<"std_mean", kRoot>>(m);
}

}  // namespace mpsx::ops
