// ctc_loss and its gradient.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "loss/ctc_params.h"
#include "ops/indexing.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

using at::IntArrayRef;
using Pair = std::tuple<Tensor, Tensor>;

bool has_ctc_kernels(const Tensor& log_probs, const Tensor& targets) {
  return is_plain(log_probs) && log_probs.scalar_type() == at::kFloat && log_probs.dim() == 3 && is_plain(targets) &&
         (targets.scalar_type() == at::kLong || targets.scalar_type() == at::kInt);
}

// The arguments of ctc_loss in the format that kernels read. The constructor validates them and raises PyTorch's error
// messages.
struct Ctc {
  CtcParams p{};
  Tensor targets, table;

  Ctc(const Tensor& log_probs, const Tensor& given, IntArrayRef input, IntArrayRef target, int64_t blank) {
    const int64_t batch = log_probs.size(1), classes = log_probs.size(2), steps = log_probs.size(0);
    TORCH_CHECK(blank >= 0 && blank < classes, "blank must be in label range");
    TORCH_CHECK(int64_t(input.size()) == batch, "input_lengths must be of size batch_size");
    TORCH_CHECK(int64_t(target.size()) == batch, "target_lengths must be of size batch_size");
    TORCH_CHECK(given.dim() == 1 || given.dim() == 2, "targets should be of dimension 1 or 2, got ", given.dim());
    TORCH_CHECK(given.dim() == 1 || given.size(0) == batch, "Expected targets of ", batch, " sequences, got ",
                given.sizes());
    targets = dense_index(given);
    std::vector<int64_t> rows;
    int64_t total = 0, longest = 0, max_input = 0;
    for (size_t b = 0; b < size_t(batch); ++b) {
      TORCH_CHECK(target[b] >= 0, "Expected target_lengths to have value at least 0, but got value ", target[b],
                  " (while checking arguments for ctc_loss_cpu)");
      TORCH_CHECK(input[b] >= 0, "Expected input_lengths to have value at least 0, but got value ", input[b],
                  " (while checking arguments for ctc_loss_cpu)");
      rows.insert(rows.end(), {input[b], target[b], given.dim() == 1 ? total : int64_t(b) * targets.size(1), 1});
      total += target[b];
      longest = std::max(longest, target[b]);
      max_input = std::max(max_input, input[b]);
    }
    TORCH_CHECK(given.dim() == 1 ? total == given.size(0) : longest <= given.size(1), "Expected tensor to have size ",
                given.dim() == 1 ? "" : "at least ", given.dim() == 1 ? total : longest, " at dimension ",
                given.dim() - 1, ", but got size ", given.size(-1), " for argument #2 'targets'");
    TORCH_CHECK(max_input <= steps, "Expected input_lengths to have value at most ", steps, ", but got value ",
                max_input, " (while checking arguments for ctc_loss_cpu)");
    TORCH_CHECK(steps < INT32_MAX && 2 * longest + 1 < INT32_MAX, "ctc_loss: expected lengths below 2^30");
    table = at::from_blob(rows.data(), {batch, 4}, at::kLong).to(log_probs.device());
    if (given.dim() == 2) {  // the padding after a target may have any value
      const Tensor used = at::arange(targets.size(1), targets.options()).lt(table.slice(1, 1, 2));
      targets = targets.mul(used);
    }
    check_index("ctc_loss", targets, classes, 0, false);
    p = {uint32_t(batch),
         uint32_t(classes),
         uint32_t(steps),
         uint32_t(2 * longest + 1),
         blank,
         log_probs.stride(0),
         log_probs.stride(1),
         log_probs.stride(2),
         0};
  }
  // Runs a kernel that iterates over the time steps, and writes `out`.
  void recur(const KernelSet& kernels, std::initializer_list<Tensor> out, const Tensor& log_probs) const {
    Launch l(kernels.get());
    for (const Tensor& t : out) l.outputs(t);
    l.inputs(log_probs, targets, table).bytes(p);
    l.groups({p.batch, 1, 1}, runtime::threads_for_row(p.states)).work(uint64_t(p.steps) * p.states * 32).run();
  }
};

std::optional<Pair> ctc_loss(const Tensor& log_probs, const Tensor& targets, IntArrayRef input, IntArrayRef target,
                             int64_t blank, bool) {
  static const KernelSet kernels("ctc_alpha");
  if (!has_ctc_kernels(log_probs, targets)) return std::nullopt;
  const Ctc c(log_probs, targets, input, target, blank);
  const Tensor loss = at::empty({c.p.batch}, log_probs.options());
  const Tensor alpha = at::empty({c.p.batch, c.p.steps, c.p.states}, log_probs.options());
  if (c.p.batch > 0) c.recur(kernels, {loss, alpha}, log_probs);
  return Pair(loss, alpha);
}
std::optional<Tensor> ctc_backward(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                                   IntArrayRef input, IntArrayRef target, const Tensor& loss, const Tensor& alpha,
                                   int64_t blank, bool zero_infinity) {
  static const KernelSet of_beta("ctc_beta"), of_grad("ctc_grad");
  if (!has_ctc_kernels(log_probs, targets) || !is_plain(grad) || !is_plain(loss) || !is_plain(alpha))
    return std::nullopt;
  Ctc c(log_probs, targets, input, target, blank);
  c.p.zero_infinity = zero_infinity;
  const Tensor result = at::empty(log_probs.sizes(), log_probs.options());
  if (result.numel() == 0) return result;
  const Tensor beta = at::empty(alpha.sizes(), alpha.options()), a = alpha.contiguous();
  const Tensor g = grad.expand({c.p.batch}).contiguous(), whole = loss.contiguous();
  c.recur(of_beta, {beta}, log_probs);
  Launch(of_grad.get())
      .outputs(result)
      .inputs(g, whole, a, beta, log_probs, c.targets, c.table)
      .bytes(c.p)
      .threads(c.p.steps, c.p.batch)
      .work(uint64_t(c.p.classes) * 16 + c.p.states * 16)
      .run();
  return result;
}

// Copies lengths from a tensor on any device to a vector.
std::vector<int64_t> numbers(const Tensor& lengths) {
  TORCH_CHECK(at::isIntegralType(lengths.scalar_type(), false), "ctc_loss: expected integer lengths, got ",
              lengths.scalar_type());
  const Tensor t = lengths.to(at::kCPU, at::kLong).contiguous();
  return {t.const_data_ptr<int64_t>(), t.const_data_ptr<int64_t>() + t.numel()};
}
std::optional<Pair> ctc_loss_tensor(const Tensor& log_probs, const Tensor& targets, const Tensor& input,
                                    const Tensor& target, int64_t blank, bool zero_infinity) {
  return ctc_loss(log_probs, targets, numbers(input), numbers(target), blank, zero_infinity);
}
std::optional<Tensor> ctc_backward_tensor(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                                          const Tensor& input, const Tensor& target, const Tensor& loss,
                                          const Tensor& alpha, int64_t blank, bool zero_infinity) {
  return ctc_backward(grad, log_probs, targets, numbers(input), numbers(target), loss, alpha, blank, zero_infinity);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"_ctc_loss", &ctc_loss>(m);
  op<"_ctc_loss.Tensor", &ctc_loss_tensor>(m);
  op<"_ctc_loss_backward", &ctc_backward>(m);
  op<"_ctc_loss_backward.Tensor", &ctc_backward_tensor>(m);
}

}  // namespace mpsx::ops
