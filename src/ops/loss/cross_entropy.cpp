// Fused cross_entropy for rows of scores and targets that are class indices. PyTorch composes cross_entropy from
// log_softmax and nll_loss, which write, read and save the log-probabilities. Here, one kernel computes the loss. For
// unsupported arguments, PyTorch's composite is used.
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/cross_entropy_loss_native.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/differentiated.h"
#include "ops/explicit.h"
#include "ops/loss/nll_loss.h"
#include "ops/operator.h"
#include "ops/rows.h"
#include "runtime/device_error.h"

namespace mpsx::ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

// The operands of a row-wise cross_entropy, and the kernel parameters.
struct Problem {
  Tensor in, target, weight;  // contiguous; weight is float or undefined
  CrossEntropyParams params{};
  RowLaunch rows{};
};

Problem plan(const KernelSet& kernels, const Tensor& input, const Tensor& target, const MaybeTensor& weight,
             int64_t reduction, int64_t ignore_index, const Tensor& gradient) {
  Problem q{input.contiguous(), target.to(at::kLong).contiguous(), Tensor()};
  if (weight && weight->defined()) q.weight = weight->to(at::kFloat).contiguous();
  const int64_t samples = input.size(0), classes = input.size(1);
  TORCH_CHECK(samples < int64_t(UINT32_MAX) - int64_t(kNllSamples) && classes < int64_t(UINT32_MAX),
              "cross_entropy_loss: expected sizes below 2^32, got ", input.sizes());
  const bool backward = gradient.defined();
  q.rows = share_rows(kernels.get(tag_of(input)), uint64_t(samples), uint64_t(classes), {q.in},
                      {backward ? gradient : q.in}, 0, backward ? kRowThreads : runtime::lane_group_threads());
  q.params.shape = q.rows.shape;
  q.params.loss = {.ignore_index = ignore_index,
                   .classes = classes,
                   .inner = 1,
                   .samples = uint32_t(samples),
                   .has_weight = q.weight.defined(),
                   .mean = reduction == at::Reduction::Mean,
                   .reduced = reduction != at::Reduction::None};
  return q;
}

at::ScalarType loss_type(const Tensor& input, bool to_float) { return to_float ? at::kFloat : input.scalar_type(); }

void check(const Tensor& input, const Tensor& target, const MaybeTensor& weight) {
  TORCH_CHECK(input.dim() == 2 && target.dim() == 1 && input.sym_size(0) == target.sym_size(0),
              "cross_entropy_loss: expected scores [N, C] and N class indices, got shapes ", input.sym_sizes(), " and ",
              target.sym_sizes());
  TORCH_CHECK(!weight || !weight->defined() || (weight->dim() == 1 && weight->sym_size(0) == input.sym_size(1)),
              "cross_entropy_loss: expected a weight of ", input.sym_size(1), " classes");
}

// The loss, the statistics of each row that the backward pass needs, and the sum of the rows' weights.
using Results = std::tuple<Tensor, Tensor, Tensor>;

Results forward(const Tensor& input, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
                int64_t ignore_index, bool to_float) {
  static const KernelSet kernels("cross_entropy_rows");
  check(input, target, weight);
  const Problem q = plan(kernels, input, target, weight, reduction, ignore_index, Tensor());
  const bool reduced = q.params.loss.reduced;
  const auto floats = input.options().dtype(at::kFloat);
  const Tensor norms = at::empty({input.size(0), 2}, floats), total_weight = at::empty({}, floats);
  const Tensor losses =
      reduced ? at::empty({int64_t(q.rows.lane_groups.threadgroups), 2}, floats) : at::empty({input.size(0)}, floats);
  if (input.size(0) > 0) {  // launch even if there are no classes, to report that targets are out of range
    Launch l(kernels.get(tag_of(input)));
    l.outputs(losses, norms).inputs(q.in, q.target, q.weight).bytes(q.params);
    q.rows.run(l.pointer(runtime::device_error_record("nll_loss")), uint64_t(input.size(1)) * 4);
  }
  const at::ScalarType type = loss_type(input, to_float);
  if (!reduced) {
    runtime::check_device_errors();
    return {losses.to(type), norms, total_weight.zero_()};
  }
  const Tensor loss = at::empty({}, input.options().dtype(type));
  sum_losses(losses, q.params.loss, loss, total_weight);
  runtime::check_device_errors();
  return {loss, norms, total_weight};
}

Results forward_meta(const Tensor& input, const Tensor& target, const MaybeTensor& weight, int64_t reduction, int64_t,
                     bool to_float) {
  check(input, target, weight);
  const auto floats = input.options().dtype(at::kFloat), own = input.options().dtype(loss_type(input, to_float));
  const c10::SymInt rows = input.sym_size(0), pair[] = {rows, 2};
  const c10::SymIntArrayRef losses(&rows, reduction == at::Reduction::None);
  return {at::empty_symint(losses, own), at::empty_symint(pair, floats), at::empty({}, floats)};
}

Tensor backward(const Tensor& grad, const Tensor& input, const Tensor& target, const MaybeTensor& weight,
                const Tensor& norms, const Tensor& total_weight, int64_t reduction, int64_t ignore_index) {
  static const KernelSet kernels("cross_entropy_bwd");
  check(input, target, weight);
  const Tensor result = at::empty(input.sizes(), input.options());
  const Problem q = plan(kernels, input, target, weight, reduction, ignore_index, result);
  if (input.numel() == 0) return result;
  const Tensor g = grad.to(at::kFloat).contiguous(), by_row = norms.contiguous();
  Launch l(kernels.get(tag_of(input)));
  l.outputs(result).inputs(g, q.in, q.target, q.weight, by_row, total_weight).bytes(q.params);
  q.rows.run(l.pointer(runtime::device_error_record("nll_loss_backward")), uint64_t(input.size(1)) * 4);
  runtime::check_device_errors();
  return result;
}

Tensor backward_meta(const Tensor&, const Tensor& input, const Tensor&, const MaybeTensor&, const Tensor&,
                     const Tensor&, int64_t, int64_t) {
  return at::empty_symint(input.sym_sizes(), input.options());
}

Tensor composed(const Tensor& input, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
                const c10::SymInt& ignore_index, double smoothing) {
  return at::native::cross_entropy_loss_symint(input, target, weight, reduction, ignore_index, smoothing);
}

using explicit_ops::BackwardCall;
using explicit_ops::Gradients;
using explicit_ops::kept;

// The double backward pass differentiates PyTorch's composite implementation.
Gradients derivative(const BackwardCall& c) {
  if (!at::GradMode::is_enabled())
    return {
        {0, explicit_ops::run<"cross_entropy_rows_backward">(c.grad(), c.tensor(0), c.tensor(1), c.argument(2),
                                                             c.result(1), c.result(2), c.argument(3), c.argument(4))}};
  const Tensor x = c.tensor(0).requires_grad() ? c.tensor(0) : c.tensor(0).detach().requires_grad_();
  const Tensor scores = c.argument(5).toBool() ? x.to(at::kFloat) : x;
  const MaybeTensor weight = c.argument(2).toOptional<Tensor>();
  const Tensor loss = composed(scores, c.tensor(1), weight && weight->defined() ? weight->to(scores.dtype()) : weight,
                               c.argument(3).toInt(), c.argument(4).toInt(), 0.0);
  return {{0, torch::autograd::grad({loss}, {x}, {c.grad()}, std::nullopt, true)[0]}};
}

// Returns whether the kernels support the arguments. torch.func wrappers and tensor subclasses need PyTorch's
// composite.
bool fuses(const Tensor& input, const Tensor& target, const MaybeTensor& weight, double smoothing) {
  const bool weighted = weight && weight->defined();
  for (const Tensor* t : {&input, &target, weighted ? &*weight : &input})
    if (is_transformed(*t) || t->key_set().has(c10::DispatchKey::Python) || !is_plain(*t) || t->_fw_grad(0).defined())
      return false;
  const bool indices = target.scalar_type() == at::kLong || target.scalar_type() == at::kByte;
  if (smoothing != 0.0 || !indices || !has_float_kernel(input) || input.numel() == 0 || input.dim() != 2 ||
      target.dim() != 1 || target.size(0) != input.size(0))
    return false;
  return !weighted || (has_float_kernel(*weight) && !weight->requires_grad() && weight->dim() == 1 &&
                       weight->size(0) == input.size(1));
}

Tensor cross_entropy_loss(const Tensor& input, const Tensor& target, const MaybeTensor& weight, int64_t reduction,
                          c10::SymInt ignore_index, double smoothing) {
  // As in log_softmax, half inputs produce float32 under autocast.
  const bool autocast = at::autocast::is_autocast_enabled(at::kPrivateUse1);
  const bool one_type = autocast || !weight || !weight->defined() || weight->scalar_type() == input.scalar_type();
  if (!one_type || !fuses(input, target, weight, smoothing))
    return composed(input, target, weight, reduction, ignore_index, smoothing);
  return explicit_ops::run<"cross_entropy_rows">(input, target, weight, reduction, ignore_index.expect_int(), autocast);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  using namespace explicit_ops;
  define_op(m,
            "mpsx::cross_entropy_rows(Tensor input, Tensor target, Tensor? weight, int reduction, int ignore_index, "
            "bool to_float) -> (Tensor, Tensor, Tensor)",
            Accepts::FLOATS, &forward, &forward_meta);
  define_op(m,
            "mpsx::cross_entropy_rows_backward(Tensor grad, Tensor input, Tensor target, Tensor? weight, Tensor norms, "
            "Tensor total_weight, int reduction, int ignore_index) -> Tensor",
            Accepts::FLOATS, &backward, &backward_meta);
  add_derivative(m, {"cross_entropy_rows", kept({0, 1, 2}), kept({1, 2}), &derivative});
  add_not_differentiable(m, "cross_entropy_rows_backward");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { impl(m, "cross_entropy_loss", &cross_entropy_loss); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("cross_entropy_loss", &cross_entropy_loss); }

}  // namespace mpsx::ops
