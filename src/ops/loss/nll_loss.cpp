// nll_loss and nll_loss2d, with their backward passes. cross_entropy uses them if the fused kernels do not support its
// arguments.
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/nll_loss_backward_meta.h>
#include <ATen/ops/nll_loss_forward_meta.h>
#include <torch/library.h>

#include "ops/loss/nll_loss.h"
#include "ops/operator.h"
#include "ops/structured.h"
#include "runtime/device_error.h"

namespace mpsx::ops {
namespace {

using at::OptionalTensorRef;
using MaybeTensor = std::optional<Tensor>;

struct NllProblem {
  Tensor in, target, weight;  // contiguous; weight may be undefined
  NllParams params{};
};

NllProblem plan(const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t ignore_index,
                bool read_input) {
  TORCH_CHECK(target.scalar_type() == at::kLong || target.scalar_type() == at::kByte,
              "expected target dtype to be Long or Byte, but got ", target.scalar_type());
  check_same_device("nll_loss", self, target);
  NllProblem q;
  if (read_input) q.in = self.contiguous();
  q.target = target.to(at::kLong).contiguous();
  if (weight && weight->defined()) {
    TORCH_CHECK(weight->device() == self.device() && weight->scalar_type() == self.scalar_type(),
                "nll_loss: expected a weight of type ", self.scalar_type(), " on ", self.device(), ", got ",
                weight->scalar_type(), " on ", weight->device());
    q.weight = weight->contiguous();
  }
  NllParams& p = q.params;
  p.ignore_index = ignore_index;
  p.classes = self.size(self.dim() == 1 ? 0 : 1);
  int64_t inner = 1;
  for (int64_t d = 2; d < self.dim(); ++d) inner *= self.size(d);
  TORCH_CHECK(inner < int64_t(UINT32_MAX) && target.numel() < int64_t(UINT32_MAX) - int64_t(kNllSamples),
              "nll_loss: too many samples: ", target.numel());
  p.inner = uint32_t(inner);
  p.samples = uint32_t(target.numel());
  p.has_weight = q.weight.defined();
  return q;
}

// `output` and `total_weight` must be contiguous.
void forward(const Tensor& output, const Tensor& total_weight, NllProblem q, int64_t reduction, bool reduced) {
  static const KernelSet each("nll_loss"), sums("nll_loss_sums");
  const Tag tag = tag_of(q.in);
  NllParams& p = q.params;
  if (!reduced) {
    total_weight.zero_();
    if (p.samples == 0) return;
    Launch(each.get(tag))
        .outputs(output)
        .inputs(q.in, q.target, q.weight)
        .bytes(p)
        .pointer(runtime::device_error_record("nll_loss"))
        .threads(p.samples)
        .run();
    return runtime::check_device_errors();
  }
  p.mean = reduction == at::Reduction::Mean;
  const auto count = uint32_t(ceil_div(uint64_t(p.samples), uint64_t(kNllSamples)));
  const Tensor partial = at::empty({count, 2}, q.in.options().dtype(at::kFloat));
  if (count > 0)
    Launch(sums.get(tag))
        .outputs(partial)
        .inputs(q.in, q.target, q.weight)
        .bytes(p)
        .pointer(runtime::device_error_record("nll_loss"))
        .groups({count}, kNllThreads)
        .work(kNllSamples)
        .run();
  sum_losses(partial, p, output, total_weight);
  if (p.samples > 0) runtime::check_device_errors();
}

// `grad_input` must be contiguous.
void backward(const Tensor& grad_input, const Tensor& grad_output, NllProblem q, int64_t reduction, bool reduced,
              const Tensor& total_weight) {
  static const KernelSet kernel("nll_loss_bwd");
  grad_input.zero_();
  NllParams& p = q.params;
  if (p.samples == 0) return;
  p.mean = reduced && reduction == at::Reduction::Mean;
  p.reduced = reduced;
  const Tensor grad = grad_output.contiguous();
  Launch(kernel.get(tag_of(grad_input)))
      .outputs(grad_input)
      .inputs(grad, q.target, q.weight, total_weight)
      .bytes(p)
      .pointer(runtime::device_error_record("nll_loss_backward"))
      .threads(p.samples)
      .run();
  runtime::check_device_errors();
}

OptionalTensorRef as_ref(const MaybeTensor& t) {
  return t && t->defined() ? OptionalTensorRef(*t) : OptionalTensorRef();
}
// An unbatched sample has a single loss, regardless of the reduction.
bool is_reduced(const Tensor& self, int64_t reduction) { return reduction != at::Reduction::None || self.dim() == 1; }

bool nll_loss_forward(const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
                      c10::SymInt ignored, Tensor& output, Tensor& total_weight) {
  if (!has_float_kernel(self)) return false;
  const int64_t ignore_index = ignored.expect_int();
  Structured<at::meta::structured_nll_loss_forward, 2> outputs(output, total_weight);
  outputs.meta(self, target, as_ref(weight), reduction, ignore_index);
  forward(outputs.result(0), outputs.result(1), plan(self, target, weight, ignore_index, true), reduction,
          is_reduced(self, reduction));
  return outputs.return_or_copy(output, total_weight);
}

bool nll_loss_backward(const Tensor& grad_output, const Tensor& self, const Tensor& target, const MaybeTensor& weight,
                       int64_t reduction, c10::SymInt ignored, const Tensor& total_weight, Tensor& grad_input) {
  if (!has_float_kernel(self)) return false;
  const int64_t ignore_index = ignored.expect_int();
  Structured<at::meta::structured_nll_loss_backward> outputs(grad_input);
  outputs.meta(grad_output, self, target, as_ref(weight), reduction, ignore_index, total_weight);
  backward(outputs.result(), grad_output, plan(self, target, weight, ignore_index, false), reduction,
           is_reduced(self, reduction), total_weight);
  return outputs.return_or_copy(grad_input);
}

void check_2d(const Tensor& self, const Tensor& target, const MaybeTensor& weight) {
  TORCH_CHECK(target.dim() == 3,
              "only batches of spatial targets supported (3D tensors) but got targets of dimension: ", target.dim());
  TORCH_CHECK(self.dim() == 4,
              "only batches of spatial inputs supported (4D tensors), but got input of dimension: ", self.dim());
  TORCH_CHECK(self.size(0) == target.size(0) && self.size(2) == target.size(1) && self.size(3) == target.size(2),
              "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  TORCH_CHECK(!weight || !weight->defined() || weight->numel() == self.size(1),
              "weight tensor should be defined either for all or no classes");
}

bool nll_loss2d_forward(const Tensor& self, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
                        c10::SymInt ignore_index, Tensor& output, Tensor& total_weight) {
  if (!has_float_kernel(self)) return false;
  check_2d(self, target, weight);
  const bool reduced = reduction != at::Reduction::None;
  const Tensor loss = at::empty(reduced ? at::IntArrayRef() : target.sizes(), self.options());
  const Tensor total = at::empty({}, self.options());
  forward(loss, total, plan(self, target, weight, ignore_index.expect_int(), true), reduction, reduced);
  return return_or_copy("nll_loss2d", loss, output) && return_or_copy("nll_loss2d", total, total_weight);
}

bool nll_loss2d_backward(const Tensor& grad_output, const Tensor& self, const Tensor& target, const MaybeTensor& weight,
                         int64_t reduction, c10::SymInt ignore_index, const Tensor& total_weight, Tensor& grad_input) {
  if (!has_float_kernel(self)) return false;
  check_2d(self, target, weight);
  const bool reduced = reduction != at::Reduction::None;
  TORCH_CHECK(reduced ? grad_output.numel() == 1 : grad_output.sizes() == target.sizes(),
              "nll_loss2d_backward: expected a grad_output of shape ", reduced ? at::IntArrayRef() : target.sizes(),
              ", got ", grad_output.sizes());
  const Tensor result = at::empty(self.sizes(), self.options());
  backward(result, grad_output, plan(self, target, weight, ignore_index.expect_int(), false), reduction, reduced,
           total_weight);
  return return_or_copy("nll_loss2d_backward", result, grad_input);
}

}  // namespace

void sum_losses(Tensor pairs, const NllParams& params, const Tensor& loss, const Tensor& total_weight) {
  static const KernelSet merge("nll_loss_merge"), finish("nll_loss_finish");
  auto count = uint32_t(pairs.size(0));
  while (count > kNllSamples) {
    const auto merged = uint32_t(ceil_div(count, kNllSamples));
    const Tensor sums = at::empty({merged, 2}, pairs.options());
    Launch(merge.get(Tag::none))
        .outputs(sums)
        .inputs(pairs)
        .bytes(count)
        .groups({merged}, kNllThreads)
        .work(kNllSamples)
        .run();
    pairs = sums;
    count = merged;
  }
  const Tag tag = tag_of(loss), weight = tag_of(total_weight);
  Launch(finish.get(tag, weight == tag ? Tag::none : weight))
      .outputs(loss, total_weight)
      .inputs(pairs)
      .bytes(count)
      .bytes(params)
      .groups({1}, kNllThreads)
      .run();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"nll_loss_forward", &nll_loss_forward>(m);
  op<"nll_loss_backward", &nll_loss_backward>(m);
  op<"nll_loss2d_forward", &nll_loss2d_forward>(m);
  op<"nll_loss2d_backward", &nll_loss2d_backward>(m);
}

}  // namespace mpsx::ops
