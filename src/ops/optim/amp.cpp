// Operators that torch.amp.GradScaler uses to unscale gradients and update the scale on the device.
#include <torch/library.h>

#include "ops/operator.h"
#include "ops/optim/lists.h"

namespace mpsx::ops {
namespace {

void check_scalar(const char* op, const char* name, const Tensor& t) {
  TORCH_CHECK(is_plain(t) && t.numel() == 1 && t.scalar_type() == at::kFloat, op, ": expected ", name,
              " to be one float on ", c10::get_privateuse1_backend(), ", got ", t.numel(), " of type ", t.scalar_type(),
              " on ", t.device());
}

void amp_foreach_non_finite_check_and_unscale(at::TensorList grads, Tensor& found_inf, const Tensor& inv_scale) {
  static const KernelSet kernels("amp_unscale");
  constexpr const char* op = "_amp_foreach_non_finite_check_and_unscale_";
  if (grads.empty()) return;
  check_scalar(op, "found_inf", found_inf);
  check_scalar(op, "inv_scale", inv_scale);
  for (size_t begin = 0; begin < grads.size();) {  // each iteration processes a run of tensors with the same dtype
    const Tag tag = tag_of(grads[begin]);
    size_t end = begin;
    for (; end < grads.size() && tag_of(grads[end]) == tag; ++end)
      TORCH_CHECK(is_plain(grads[end]) && is_float_tag(tag), op, ": expected dense floating-point gradients on ",
                  found_inf.device(), ", got ", grads[end].scalar_type(), " on ", grads[end].device());
    const at::TensorList run = grads.slice(begin, end - begin);
    // Copy gradients that are not dense and unscale the copies.
    std::vector<Tensor> dense(run.begin(), run.end());
    for (Tensor& t : dense)
      if (!t.is_non_overlapping_and_dense()) t = t.contiguous();
    for_each_batch(
        {at::TensorList(dense)},
        [&](const ListBatch& batch) {
          Launch launch(kernels.get(tag));
          batch.bind(launch, 1, kListBuffers - 2);
          launch.inputs(inv_scale).outputs(found_inf);
          batch.over_chunks(launch.bytes(batch.params)).run();
        },
        kListBuffers - 2);
    for (size_t i = 0; i < run.size(); ++i)
      if (!dense[i].is_same(run[i])) run[i].copy_(dense[i]);
    begin = end;
  }
}

Tensor& amp_update_scale(Tensor& scale, Tensor& growth_tracker, const Tensor& found_inf, double growth, double backoff,
                         int64_t interval) {
  constexpr const char* op = "_amp_update_scale_";
  static const KernelSet kernel("amp_update_scale");
  check_scalar(op, "current_scale", scale);
  check_scalar(op, "found_inf", found_inf);
  TORCH_CHECK(is_plain(growth_tracker) && growth_tracker.numel() == 1 && growth_tracker.scalar_type() == at::kInt, op,
              ": expected growth_tracker to be one int, got ", growth_tracker.numel(), " of type ",
              growth_tracker.scalar_type());
  const AmpParams params{interval, float(growth), float(backoff)};
  Launch launch(kernel.get());
  launch.outputs(scale, growth_tracker).inputs(found_inf).bytes(params).threads(1).run();
  return scale;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "_amp_foreach_non_finite_check_and_unscale_", &amp_foreach_non_finite_check_and_unscale);
  impl(m, "_amp_update_scale_", &amp_update_scale);
}

}  // namespace mpsx::ops
