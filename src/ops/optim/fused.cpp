// Fused optimizers (torch.optim with fused=True). The kernels are in metal/optim/fused.metal.
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <cmath>

#include "ops/operator.h"
#include "ops/optim/lists.h"

namespace mpsx::ops {
namespace {

using at::TensorList;
using OptionalTensor = std::optional<Tensor>;

// Arguments for one optimizer step. `lists` holds the parameters, gradients and states, but not the step counts.
struct Step {
  const char* op;
  c10::SmallVector<TensorList, 6> lists;
  TensorList steps;
  OptionalTensor rate, grad_scale, found_inf;
};

bool is_scalar_f32(const Tensor& t) { return is_plain(t) && t.scalar_type() == at::kFloat && t.numel() == 1; }
bool is_scalar_f32(const OptionalTensor& t) { return !t || !t->defined() || is_scalar_f32(*t); }

// The kernels require dense tensors with equal layouts. Makes copies where a parameter is not dense, or where a
// gradient or state has a different layout than its parameter.
class AlignedLists {
 public:
  explicit AlignedLists(Step& step) : originals_(step.lists), copies_(originals_.size()) {
    const TensorList params = originals_[0];
    for (size_t i = 0; i < params.size(); ++i) {
      if (!is_plain(params[i])) continue;
      const bool dense = params[i].is_non_overlapping_and_dense();
      const Tensor like = dense ? params[i] : at::empty_like(params[i]);
      for (size_t l = 0; l < originals_.size(); ++l)
        if (i < originals_[l].size()) align(l, i, like);
    }
    for (size_t l = 0; l < copies_.size(); ++l)
      if (!copies_[l].empty()) step.lists[l] = copies_[l];
  }
  // Copies the results back. `gradients` says whether the step has changed the gradients, which happens only with a
  // gradient scale.
  void write_back(bool gradients) const {
    for (size_t l = 0; l < copies_.size(); ++l)
      for (size_t i = 0; i < copies_[l].size() && (l != 1 || gradients); ++i)
        if (!copies_[l][i].is_same(originals_[l][i])) originals_[l][i].copy_(copies_[l][i]);
  }

 private:
  void align(size_t l, size_t i, const Tensor& like) {
    const Tensor& t = originals_[l][i];
    if (!is_plain(t) || t.strides() == like.strides() || t.sizes() != like.sizes() ||
        t.scalar_type() != like.scalar_type())
      return;
    if (copies_[l].empty()) copies_[l].assign(originals_[l].begin(), originals_[l].end());
    copies_[l][i] = at::empty_like(like).copy_(t);
  }

  c10::SmallVector<TensorList, 6> originals_;
  std::vector<std::vector<Tensor>> copies_;  // a list stays empty if none of its tensors are copied
};

// Checks that the lists have equal lengths, and returns whether the kernels support their tensors.
bool is_native(const Step& step) {
  const size_t count = step.lists[0].size();
  for (const TensorList list : step.lists)
    TORCH_CHECK(list.size() == count, step.op, ": expected lists of equal length, got ", count, " and ", list.size());
  for (const Tensor& t : step.steps)
    if (!is_scalar_f32(t)) return false;
  return fits_list_kernels(step.lists) && is_scalar_f32(step.rate) && is_scalar_f32(step.grad_scale) &&
         is_scalar_f32(step.found_inf);
}

void run(Step step, const AlignedLists& aligned, const KernelSet& kernels, OptimizerParams params) {
  if (!step.steps.empty()) step.lists.insert(step.lists.begin() + 4, step.steps);
  const Tag tag = tag_of(step.lists[0][0]);
  const auto value = [&](const OptionalTensor& t, uint32_t flag) -> const void* {
    if (!t || !t->defined()) return nullptr;
    params.flags |= flag;
    return t->const_data_ptr();
  };
  const void* const rate = value(step.rate, kTensorRate);
  const void* const grad_scale = value(step.grad_scale, kGradScale);
  const void* const found_inf = value(step.found_inf, kFoundInf);
  // Kernels only read the steps, and the gradients unless they unscale them.
  constexpr uint32_t kGradients = 1u << 1, kSteps = 1u << 4;
  const uint32_t written = ~((grad_scale ? 0 : kGradients) | (step.steps.empty() ? 0 : kSteps));
  for_each_batch(
      step.lists,
      [&](const ListBatch& batch) {
        const FusedParams all{batch.params, params};
        Launch launch(kernels.get(tag));
        batch.bind(launch, written, kOptimizerBuffers);
        for (const void* p : {rate, grad_scale, found_inf}) launch.pointer(p ? p : batch.pointers[0]);
        batch.over_chunks(launch.bytes(all), 4).run();
      },
      kOptimizerBuffers);
  aligned.write_back(grad_scale != nullptr);
}

struct AdamArguments {
  double beta1, beta2, weight_decay, eps;
  bool amsgrad, maximize;
};

OptimizerParams adam_params(double rate, const AdamArguments& a) {
  OptimizerParams p{};
  p.flags = a.maximize * uint32_t{kMaximize};
  p.rate = float(rate);
  p.weight_decay = float(a.weight_decay);
  p.eps = float(a.eps);
  p.beta1 = float(a.beta1);
  p.beta2 = float(a.beta2);
  p.one_minus_beta1 = float(1 - a.beta1);
  p.one_minus_beta2 = float(1 - a.beta2);
  p.log_beta1 = float(std::log(a.beta1));
  p.log_beta2 = float(std::log(a.beta2));
  return p;
}

Step adam_lists(const char* op, TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                TensorList max_exp_avg_sqs, TensorList steps, bool amsgrad, const OptionalTensor& grad_scale,
                const OptionalTensor& found_inf) {
  Step step{op, {params, grads, exp_avgs, exp_avg_sqs}, steps, std::nullopt, grad_scale, found_inf};
  if (amsgrad) step.lists.push_back(max_exp_avg_sqs);
  TORCH_CHECK(steps.size() == params.size(), op, ": expected ", params.size(), " state steps, got ", steps.size());
  return step;
}

template <bool Decoupled>
const KernelSet& adam_kernels(bool amsgrad) {
  static const KernelSet plain(Decoupled ? "fused_adamw" : "fused_adam");
  static const KernelSet with_max(Decoupled ? "fused_adamw_amsgrad" : "fused_adam_amsgrad");
  return amsgrad ? with_max : plain;
}

template <bool Decoupled>
constexpr const char* adam_name() {
  return Decoupled ? "aten::_fused_adamw_" : "aten::_fused_adam_";
}

template <bool Decoupled>
bool fused_adam(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                TensorList max_exp_avg_sqs, TensorList steps, double lr, double beta1, double beta2,
                double weight_decay, double eps, bool amsgrad, bool maximize, const OptionalTensor& grad_scale,
                const OptionalTensor& found_inf) {
  if (params.empty()) return true;
  Step step = adam_lists(adam_name<Decoupled>(), params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, amsgrad,
                         grad_scale, found_inf);
  const AlignedLists aligned(step);
  if (!is_native(step)) return false;
  run(std::move(step), aligned, adam_kernels<Decoupled>(amsgrad),
      adam_params(lr, {beta1, beta2, weight_decay, eps, amsgrad, maximize}));
  return true;
}

template <bool Decoupled>
bool fused_adam_tensor_lr(TensorList params, TensorList grads, TensorList exp_avgs, TensorList exp_avg_sqs,
                          TensorList max_exp_avg_sqs, TensorList steps, const Tensor& lr, double beta1, double beta2,
                          double weight_decay, double eps, bool amsgrad, bool maximize,
                          const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (lr.device().is_cpu())
    return fused_adam<Decoupled>(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, lr.item<double>(), beta1,
                                 beta2, weight_decay, eps, amsgrad, maximize, grad_scale, found_inf);
  if (params.empty()) return true;
  Step step = adam_lists(adam_name<Decoupled>(), params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, amsgrad,
                         grad_scale, found_inf);
  const AlignedLists aligned(step);
  step.rate = lr;
  if (!is_native(step)) return false;
  run(std::move(step), aligned, adam_kernels<Decoupled>(amsgrad),
      adam_params(0, {beta1, beta2, weight_decay, eps, amsgrad, maximize}));
  return true;
}

OptimizerParams sgd_params(double rate, double weight_decay, double momentum, double dampening, bool maximize,
                           bool is_first_step) {
  OptimizerParams p{};
  p.flags = maximize * uint32_t{kMaximize} | is_first_step * uint32_t{kFirstStep};
  p.rate = float(rate);
  p.weight_decay = float(weight_decay);
  p.momentum = float(momentum);
  p.one_minus_dampening = float(1 - dampening);
  return p;
}

Step sgd_lists(TensorList params, TensorList grads, TensorList buffers, const OptionalTensor& grad_scale,
               const OptionalTensor& found_inf) {
  Step step{"_fused_sgd_", {params, grads}, {}, std::nullopt, grad_scale, found_inf};
  if (!buffers.empty()) step.lists.push_back(buffers);
  return step;
}

const KernelSet& sgd_kernels(bool momentum, bool nesterov) {
  static const KernelSet plain("fused_sgd"), with_momentum("fused_sgd_momentum"), with_nesterov("fused_sgd_nesterov");
  return !momentum ? plain : nesterov ? with_nesterov : with_momentum;
}

bool fused_sgd(TensorList params, TensorList grads, TensorList buffers, double weight_decay, double momentum, double lr,
               double dampening, bool nesterov, bool maximize, bool is_first_step, const OptionalTensor& grad_scale,
               const OptionalTensor& found_inf) {
  if (params.empty()) return true;
  Step step = sgd_lists(params, grads, buffers, grad_scale, found_inf);
  const AlignedLists aligned(step);
  if (!is_native(step)) return false;
  run(std::move(step), aligned, sgd_kernels(!buffers.empty(), nesterov),
      sgd_params(lr, weight_decay, momentum, dampening, maximize, is_first_step));
  return true;
}

bool fused_sgd_tensor_lr(TensorList params, TensorList grads, TensorList buffers, double weight_decay, double momentum,
                         const Tensor& lr, double dampening, bool nesterov, bool maximize, bool is_first_step,
                         const OptionalTensor& grad_scale, const OptionalTensor& found_inf) {
  if (lr.device().is_cpu())
    return fused_sgd(params, grads, buffers, weight_decay, momentum, lr.item<double>(), dampening, nesterov, maximize,
                     is_first_step, grad_scale, found_inf);
  if (params.empty()) return true;
  Step step = sgd_lists(params, grads, buffers, grad_scale, found_inf);
  const AlignedLists aligned(step);
  step.rate = lr;
  if (!is_native(step)) return false;
  run(std::move(step), aligned, sgd_kernels(!buffers.empty(), nesterov),
      sgd_params(0, weight_decay, momentum, dampening, maximize, is_first_step));
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"_fused_adam_", &fused_adam<false>>(m);
  op<"_fused_adam_.tensor_lr", &fused_adam_tensor_lr<false>>(m);
  op<"_fused_adamw_", &fused_adam<true>>(m);
  op<"_fused_adamw_.tensor_lr", &fused_adam_tensor_lr<true>>(m);
  op<"_fused_sgd_", &fused_sgd>(m);
  op<"_fused_sgd_.tensor_lr", &fused_sgd_tensor_lr>(m);
}

}  // namespace mpsx::ops
