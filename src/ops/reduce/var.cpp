// Launchers of metal/reduce/var.metal: var, std, var_mean, std_mean.
#include <ATen/native/ReduceOpsUtils.h>
#include <torch/library.h>

#include "ops/elementwise/complex.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/reduce_plan.h"

namespace mpsx::ops {
namespace {

using at::OptionalIntArrayRef;
using at::Scalar;
using Correction = std::optional<Scalar>;
using Two = std::tuple<Tensor, Tensor>;

enum : uint32_t { kMean = 1, kRoot = 2 };  // kVarMean, kVarRoot of the kernels

bool has_kernel(const Tensor& x, const Tensor& out = Tensor()) {
  return is_plain(x) && is_float_tag(tag_of(x)) && (!out.defined() || out.scalar_type() == x.scalar_type());
}

// The variance (or its root) and, asked for by `flags`, the mean.
Two var_to(const Tensor& x, OptionalIntArrayRef dim, const Correction& correction, bool keepdim, uint32_t flags,
           const Tensor& out) {
  static const ReduceKernels kernels("var");
  const DimMask mask = at::native::make_dim_mask(dim, x.dim());
  const auto shape = at::native::shape_from_dim_mask(x, mask, keepdim);
  const Tensor var = reduce_target(out, shape, x, x.scalar_type());
  const Tensor mean = flags & kMean ? at::empty(shape, x.options()) : Tensor();
  if (x.numel() == 0) {
    var.fill_(NAN);
    if (mean.defined()) mean.fill_(NAN);
  } else {
    ReducePlan plan = plan_reduction(x, mask);
    plan.params.both = flags;
    plan.params.p = correction.value_or(1).to<float>();
    const Tensor parts = reduce_parts(plan, 3 * sizeof(float), 1);  // the pivots
    const void* parts_data = data_or_null(parts);
    void* mean_data = mutable_data_or_null(mean);
    Launch launch((plan.columns ? kernels.columns : kernels.rows).get(tag_of(x)));
    launch.pointer(var.mutable_data_ptr()).pointer(mean_data).pointer(parts_data);
    launch.pointer(plan.input.const_data_ptr()).bytes(plan.params);
    launch_plan(launch, plan);
    if (parts.defined()) {
      Launch merge(kernels.merge.get(tag_of(x)));
      merge.pointer(var.mutable_data_ptr()).pointer(mean_data).pointer(parts_data).bytes(plan.params);
      merge.threads(plan.params.outputs).work(plan.params.splits).run();
    }
  }
  reduce_deliver(var, out);
  return {out.defined() ? out : var, mean};
}

// Of complex numbers: undefined for others.
Two of_complex(const Tensor& x, OptionalIntArrayRef dim, const Correction& correction, bool keepdim, uint32_t flags) {
  const auto [var, mean] = complex_var_mean(x, dim, correction, keepdim);
  return {var.defined() && (flags & kRoot) ? var.sqrt() : var, mean};
}

#define FORMS(NAME, ROOT)                                                                                             \
  Tensor NAME##_of(const Tensor& x, OptionalIntArrayRef dim, const Correction& correction, bool keepdim) {            \
    if (const auto [z, mean] = of_complex(x, dim, correction, keepdim, ROOT); z.defined()) return z;                  \
    if (!has_kernel(x)) return fallback_call<Tensor>("aten::" #NAME, "correction", x, dim, correction, keepdim);      \
    return std::get<0>(var_to(x, dim, correction, keepdim, ROOT, Tensor()));                                          \
  }                                                                                                                   \
  Tensor& NAME##_out(const Tensor& x, OptionalIntArrayRef dim, const Correction& correction, bool keepdim,            \
                     Tensor& out) {                                                                                   \
    if (const auto [z, mean] = of_complex(x, dim, correction, keepdim, ROOT); z.defined())                            \
      return write_out(#NAME, z, out);                                                                                \
    if (!has_kernel(x, out))                                                                                          \
      return fallback_call<Tensor>("aten::" #NAME, "correction_out", x, dim, correction, keepdim, out), out;          \
    return var_to(x, dim, correction, keepdim, ROOT, out), out;                                                       \
  }                                                                                                                   \
  Two NAME##_mean(const Tensor& x, OptionalIntArrayRef dim, const Correction& correction, bool keepdim) {             \
    if (const Two z = of_complex(x, dim, correction, keepdim, ROOT); std::get<0>(z).defined()) return z;              \
    if (!has_kernel(x)) return fallback_call<Two>("aten::" #NAME "_mean", "correction", x, dim, correction, keepdim); \
    return var_to(x, dim, correction, keepdim, ROOT | kMean, Tensor());                                               \
  }
FORMS(var, 0)
FORMS(std, kRoot)

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("var.correction", &var_of);
  m.impl("var.correction_out", &var_out);
  m.impl("std.correction", &std_of);
  m.impl("std.correction_out", &std_out);
  m.impl("var_mean.correction", &var_mean);
  m.impl("std_mean.correction", &std_mean);
}

}  // namespace mpsx::ops
