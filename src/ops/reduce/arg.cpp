// Launchers of metal/reduce/arg.metal: argmax, argmin, max and min along a dimension.
#include <ATen/native/ReduceOpsUtils.h>
#include <torch/library.h>

#include "ops/reduce/reduce_plan.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using OptionalDim = std::optional<int64_t>;

struct Variant {
  ReduceKernels kernels;
  const char* name;       // "argmax"
  const char* aten;       // "aten::argmax"
  const char* pair;       // "max"
  const char* pair_aten;  // "aten::max"
  const char* pair_out;   // the overload of its out= form
};
const Variant& max_variant() {
  static const Variant v{ReduceKernels("argmax"), "argmax", "aten::argmax", "max", "aten::max", "dim_max"};
  return v;
}
const Variant& min_variant() {
  static const Variant v{ReduceKernels("argmin"), "argmin", "aten::argmin", "min", "aten::min", "dim_min"};
  return v;
}

// `values` may be undefined; both lie contiguous.
void run(const ReduceKernels& kernels, const Tensor& indices, const Tensor& values, const Tensor& x, DimMask mask) {
  ReducePlan plan = plan_reduction(x, mask, ReduceOrder::kept);
  plan.params.both = values.defined();
  const Tensor parts = reduce_parts(plan, 2 * sizeof(int64_t));  // a key of at most 64 bits, and the index
  const void* parts_data = data_or_null(parts);
  void* values_data = mutable_data_or_null(values);
  const Tag tag = tag_of(x);
  Launch launch((plan.columns ? kernels.columns : kernels.rows).get(tag));
  launch.pointer(indices.mutable_data_ptr()).pointer(values_data).pointer(parts_data);
  launch.pointer(plan.input.const_data_ptr()).bytes(plan.params);
  launch_plan(launch, plan);
  if (!parts.defined()) return;
  Launch merge(kernels.merge.get(tag));
  merge.pointer(indices.mutable_data_ptr()).pointer(values_data).pointer(parts_data).bytes(plan.params);
  merge.threads(plan.params.outputs).work(plan.params.splits).run();
}

Tensor arg_to(const Variant& v, const Tensor& x, OptionalDim dim, bool keepdim, const Tensor& out) {
  if (x.numel() == 0) {
    if (dim)
      at::native::zero_numel_check_dims(x, at::maybe_wrap_dim(*dim, x.dim()), v.name);
    else
      TORCH_CHECK_INDEX(false, v.name,
                        "(): Expected reduction dim to be specified for input.numel() == 0. "
                        "Specify the reduction dim with the 'dim' argument.");
  }
  const DimMask mask =
      at::native::make_dim_mask(dim ? at::OptionalIntArrayRef(*dim) : at::OptionalIntArrayRef(), x.dim());
  const auto shape = at::native::shape_from_dim_mask(x, mask, keepdim);
  const Tensor result = reduce_target(out, shape, x, at::kLong);
  if (x.numel() > 0) run(v.kernels, result, Tensor(), x, mask);
  reduce_deliver(result, out);
  return out.defined() ? out : result;
}
Tensor arg(const Variant& v, const Tensor& x, OptionalDim dim, bool keepdim) {
  if (!has_number_kernel(x)) return fallback_call<Tensor>(v.aten, "", x, dim, keepdim);
  return arg_to(v, x, dim, keepdim, Tensor());
}
Tensor& arg_out(const Variant& v, const Tensor& x, OptionalDim dim, bool keepdim, Tensor& out) {
  if (!has_number_kernel(x)) return fallback_call<Tensor>(v.aten, "out", x, dim, keepdim, out), out;
  TORCH_CHECK(out.scalar_type() == at::kLong, v.name, ": expected out of type Long, got ", out.scalar_type());
  return arg_to(v, x, dim, keepdim, out), out;
}

void pair_to(const Variant& v, const Tensor& x, int64_t dim_given, bool keepdim, Tensor& values, Tensor& indices) {
  const int64_t dim = at::maybe_wrap_dim(dim_given, x.dim());
  if (x.numel() == 0) at::native::zero_numel_check_dims(x, dim, v.pair);
  const DimMask mask = at::native::make_dim_mask(dim, x.dim());
  const auto shape = at::native::shape_from_dim_mask(x, mask, keepdim);
  const Tensor value_result = reduce_target(values, shape, x, x.scalar_type());
  const Tensor index_result = reduce_target(indices, shape, x, at::kLong);
  if (x.numel() > 0) run(v.kernels, index_result, value_result, x, mask);
  reduce_deliver(value_result, values);
  reduce_deliver(index_result, indices);
  if (!values.defined()) values = value_result;
  if (!indices.defined()) indices = index_result;
}
std::tuple<Tensor, Tensor> pair(const Variant& v, const Tensor& x, int64_t dim, bool keepdim) {
  if (!has_number_kernel(x)) return fallback_call<std::tuple<Tensor, Tensor>>(v.pair_aten, "dim", x, dim, keepdim);
  Tensor values, indices;
  pair_to(v, x, dim, keepdim, values, indices);
  return {values, indices};
}
std::tuple<Tensor&, Tensor&> pair_out(const Variant& v, const Tensor& x, int64_t dim, bool keepdim, Tensor& values,
                                      Tensor& indices) {
  if (!has_number_kernel(x)) {
    fallback_call<std::tuple<Tensor, Tensor>>(v.pair_aten, v.pair_out, x, dim, keepdim, values, indices);
    return {values, indices};
  }
  TORCH_CHECK(values.scalar_type() == x.scalar_type(), v.pair, ": expected values of type ", x.scalar_type(), ", got ",
              values.scalar_type());
  TORCH_CHECK(indices.scalar_type() == at::kLong, v.pair, ": expected indices of type Long, got ",
              indices.scalar_type());
  pair_to(v, x, dim, keepdim, values, indices);
  return {values, indices};
}

#define FORMS(NAME)                                                                                                   \
  Tensor arg##NAME(const Tensor& x, OptionalDim dim, bool keepdim) { return arg(NAME##_variant(), x, dim, keepdim); } \
  Tensor& arg##NAME##_out(const Tensor& x, OptionalDim dim, bool keepdim, Tensor& out) {                              \
    return arg_out(NAME##_variant(), x, dim, keepdim, out);                                                           \
  }                                                                                                                   \
  std::tuple<Tensor, Tensor> NAME##_dim(const Tensor& x, int64_t dim, bool keepdim) {                                 \
    return pair(NAME##_variant(), x, dim, keepdim);                                                                   \
  }                                                                                                                   \
  std::tuple<Tensor&, Tensor&> NAME##_dim_out(const Tensor& x, int64_t dim, bool keepdim, Tensor& values,             \
                                              Tensor& indices) {                                                      \
    return pair_out(NAME##_variant(), x, dim, keepdim, values, indices);                                              \
  }
FORMS(max)
FORMS(min)

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("argmax", &argmax);
  m.impl("argmax.out", &argmax_out);
  m.impl("argmin", &argmin);
  m.impl("argmin.out", &argmin_out);
  m.impl("max.dim", &max_dim);
  m.impl("max.dim_max", &max_dim_out);
  m.impl("min.dim", &min_dim);
  m.impl("min.dim_min", &min_dim_out);
}

}  // namespace mpsx::ops
