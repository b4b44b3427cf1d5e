// multi_margin_loss, multilabel_margin_loss, and their gradients.
#include <ATen/core/Reduction.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "loss/params.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "runtime/device_error.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using OptionalTensor = std::optional<Tensor>;

bool has_kernels(const Tensor& self, const Tensor& target) {
  return is_plain(self) && self.scalar_type() == at::kFloat && is_plain(target) && target.scalar_type() == at::kLong;
}

// Applies the reduction to the losses of all rows.
Tensor reduced(const Tensor& rows, int64_t reduction, bool single) {
  if (reduction == at::Reduction::Mean) return rows.mean();
  if (reduction == at::Reduction::Sum) return rows.sum();
  return single ? rows.squeeze(0) : rows;
}
void check_shapes(const char* name, const Tensor& self, bool fits, const Tensor& target) {
  const bool rows = (self.dim() == 2 && self.size(1) > 0) || (self.dim() == 1 && self.size(0) > 0) || self.dim() == 0;
  TORCH_CHECK(rows, name,
              ": Expected non-empty vector or matrix with optional 0-dim batch size, but got: ", self.sizes());
  TORCH_CHECK(fits, name, ": inconsistent target size: ", target.sizes(), " for input of size: ", self.sizes());
}

// Dense rows of classes, and the kernel parameters.
struct MarginProblem {
  Tensor x, target, weight;  // if weight is undefined, all weights are 1
  uint32_t rows;
  MarginParams params{};

  MarginProblem(const char* name, const Tensor& self, const Tensor& where) {
    const int64_t count = self.dim() < 2 ? 1 : self.size(0);
    rows = grid_size(name, count);
    x = self.contiguous();
    target = where.contiguous();
    params.classes = grid_size(name, self.dim() == 0 ? 1 : self.size(-1));
    params.margin = 1;
    params.scale = float(1.0 / double(params.classes));
  }
  // Returns a contiguous output gradient for the kernel, and sets the parameters that depend on the reduction.
  Tensor gradient(const Tensor& grad, int64_t reduction) {
    params.reduced = reduction != at::Reduction::None;
    if (reduction == at::Reduction::Mean) params.scale = float(1.0 / (double(params.classes) * double(rows)));
    return grad.contiguous();
  }
  void run(Launch& launch, const char* name, uint64_t work) const {
    launch.bytes(params)
        .pointer(runtime::device_error_record(name))
        .groups({rows, 1, 1}, runtime::threads_for_row(params.classes))
        .work(work)
        .run();
    runtime::check_device_errors();
  }
};

MarginProblem multi_margin(const Tensor& self, const Tensor& where, const Scalar& p, const Scalar& margin,
                           const OptionalTensor& weight) {
  constexpr const char* kName = "multi_margin_loss";
  const int64_t power = p.toLong();
  TORCH_CHECK(power == 1 || power == 2, "multi_margin_loss: Invalid p, expected 1 or 2 but got ", power);
  check_shapes(kName, self, where.dim() <= 1 && where.numel() == (self.dim() < 2 ? 1 : self.size(0)), where);
  MarginProblem q(kName, self, where);
  q.params.squared = power == 2;
  q.params.margin = margin.to<float>();
  if (!weight || !weight->defined()) return q;
  TORCH_CHECK(weight->dim() <= 1 && weight->numel() == int64_t(q.params.classes),
              "multi_margin_loss: inconsistent weight size: ", weight->sizes(), " for input of size: ", self.sizes());
  q.weight = weight->to(self.scalar_type()).contiguous();
  q.params.has_weight = 1;
  return q;
}

bool multi_margin_loss(const Tensor& self, const Tensor& target, const Scalar& p, const Scalar& margin,
                       const OptionalTensor& weight, int64_t reduction, Tensor& out) {
  static const KernelSet kernels("multi_margin");
  if (!has_kernels(self, target) || !accepts(out, self.scalar_type())) return false;
  const MarginProblem q = multi_margin(self, target, p, margin, weight);
  const Tensor rows = at::empty({q.rows}, self.options());
  if (q.rows > 0) {
    Launch launch(kernels.get(tag_of(self)));
    launch.outputs(rows).inputs(q.x, q.target, q.weight);
    q.run(launch, "multi_margin_loss", q.params.classes);
  }
  return return_or_copy("multi_margin_loss", reduced(rows, reduction, target.dim() == 0), out);
}
bool multi_margin_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Scalar& p,
                           const Scalar& margin, const OptionalTensor& weight, int64_t reduction, Tensor& grad_input) {
  static const KernelSet kernels("multi_margin_bwd");
  if (!has_kernels(self, target) || !is_plain(grad) || grad.scalar_type() != self.scalar_type() ||
      !accepts(grad_input, self.scalar_type()))
    return false;
  MarginProblem q = multi_margin(self, target, p, margin, weight);
  const Tensor result = at::empty(self.sizes(), self.options()), from = q.gradient(grad, reduction);
  if (q.rows == 0) return return_or_copy("multi_margin_loss_backward", result, grad_input);
  Launch launch(kernels.get(tag_of(self)));
  launch.outputs(result).inputs(from, q.x, q.target, q.weight);
  q.run(launch, "multi_margin_loss", 2 * uint64_t(q.params.classes));
  return return_or_copy("multi_margin_loss_backward", result, grad_input);
}
MarginProblem multilabel_margin(const Tensor& self, const Tensor& target) {
  constexpr const char* kName = "multilabel_margin_loss";
  check_shapes(kName, self, target.sizes() == self.sizes(), target);
  return MarginProblem(kName, self, target);
}
// Returns the number of (target, class) pairs.
uint64_t pairs(const MarginProblem& q) { return uint64_t(q.params.classes) * q.params.classes; }

bool multilabel_margin_forward(const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out,
                               Tensor& is_target) {
  static const KernelSet kernels("multilabel_margin");
  if (!has_kernels(self, target) || !accepts(out, self.scalar_type())) return false;
  const MarginProblem q = multilabel_margin(self, target);
  const Tensor rows = at::empty({q.rows}, self.options()), marks = at::empty(target.sizes(), self.options());
  if (q.rows > 0) {
    Launch launch(kernels.get(tag_of(self)));
    launch.outputs(rows, marks).inputs(q.x, q.target);
    q.run(launch, "multilabel_margin_loss", pairs(q));
  }
  return return_or_copy("multilabel_margin_loss", reduced(rows, reduction, target.dim() <= 1), out) &&
         return_or_copy("multilabel_margin_loss", marks, is_target);
}
bool multilabel_margin_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                                const Tensor& is_target, Tensor& grad_input) {
  static const KernelSet kernels("multilabel_margin_bwd");
  if (!has_kernels(self, target) || !is_plain(grad) || !is_plain(is_target) ||
      grad.scalar_type() != self.scalar_type() || !accepts(grad_input, self.scalar_type()))
    return false;
  MarginProblem q = multilabel_margin(self, target);
  TORCH_CHECK(is_target.sizes() == target.sizes(), "multilabel_margin_loss_backward: expected is_target of shape ",
              target.sizes(), ", got ", is_target.sizes());
  const Tensor result = at::empty(self.sizes(), self.options()), from = q.gradient(grad, reduction);
  const Tensor marks = is_target.to(self.scalar_type()).contiguous();
  if (q.rows == 0) return return_or_copy("multilabel_margin_loss_backward", result, grad_input);
  Launch launch(kernels.get(tag_of(self)));
  launch.outputs(result).inputs(from, marks, q.x, q.target);
  q.run(launch, "multilabel_margin_loss", pairs(q));
  return return_or_copy("multilabel_margin_loss_backward", result, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"multi_margin_loss", &multi_margin_loss>(m);
  op<"multi_margin_loss_backward", &multi_margin_backward>(m);
  op<"multilabel_margin_loss_forward", &multilabel_margin_forward>(m);
  op<"multilabel_margin_loss_backward", &multilabel_margin_backward>(m);
}

}  // namespace mpsx::ops
