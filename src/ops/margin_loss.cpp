// multi_margin_loss and multilabel_margin_loss, and their gradients.
#include <ATen/core/Reduction.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "ops/indexing.h"

namespace mpsx::ops {
namespace {

using at::Scalar;
using OptionalTensor = std::optional<Tensor>;
using Pair = std::tuple<Tensor, Tensor>;

bool has_kernels(const Tensor& self, const Tensor& target) {
  return is_plain(self) && self.scalar_type() == at::kFloat && is_plain(target) && target.scalar_type() == at::kLong;
}

// One loss a row as the caller wants it.
Tensor reduced(const Tensor& rows, int64_t reduction, bool single) {
  if (reduction == at::Reduction::Mean) return rows.mean();
  if (reduction == at::Reduction::Sum) return rows.sum();
  return single ? rows.squeeze(0) : rows;
}
// The gradient of each row's loss, as a column.
Tensor row_gradient(const Tensor& grad, int64_t reduction, int64_t rows) {
  if (reduction == at::Reduction::None) return grad.reshape({-1, 1});
  return (reduction == at::Reduction::Mean ? grad.div(rows) : grad).reshape({1, 1});
}

void check_shapes(const char* name, const Tensor& self, bool fits, const Tensor& target) {
  const bool rows = (self.dim() == 2 && self.size(1) > 0) || (self.dim() == 1 && self.size(0) > 0) || self.dim() == 0;
  TORCH_CHECK(rows, name,
              ": expected non-empty vector or matrix with optional 0-dim batch size, but got: ", self.sizes());
  TORCH_CHECK(fits, name, ": inconsistent target size: ", target.sizes(), " for input of size: ", self.sizes());
}

// A row's margins: how much too near each class is to the target's.
struct Margins {
  Tensor x, target;  // (rows, classes) and a column
  Tensor gap;        // margin - x[target] + x, at least 0; 0 for the target
  Tensor weight;     // a column; undefined: 1
  int64_t p;

  Margins(const Tensor& self, const Tensor& where, const Scalar& p_, const Scalar& margin, const OptionalTensor& w)
      : p(p_.toLong()) {
    TORCH_CHECK(p == 1 || p == 2, "multi_margin_loss: Invalid p, expected 1 or 2 but got ", p);
    const int64_t count = self.dim() < 2 ? 1 : self.size(0);
    check_shapes("multi_margin_loss", self, where.dim() <= 1 && where.numel() == count, where);
    x = self.reshape({count, -1});
    target = where.reshape({count, 1}).contiguous();
    check_index("multi_margin_loss", target, x.size(1), 0, false);
    gap = x.sub(x.gather(1, target)).add_(margin).clamp_min_(0).scatter_(1, target, 0);
    if (!w || !w->defined()) return;
    TORCH_CHECK(w->dim() <= 1 && w->numel() == x.size(1), "multi_margin_loss: inconsistent weight size: ", w->sizes(),
                " for input of size: ", self.sizes());
    weight = w->reshape({-1}).index_select(0, target.view(-1)).unsqueeze(1);
  }
};

Tensor& multi_margin_loss_out(const Tensor& self, const Tensor& target, const Scalar& p, const Scalar& margin,
                              const OptionalTensor& weight, int64_t reduction, Tensor& out) {
  if (!has_kernels(self, target) || !is_plain(out) || out.scalar_type() != self.scalar_type())
    return fallback_call<Tensor>("aten::multi_margin_loss", "out", self, target, p, margin, weight, reduction, out),
           out;
  Margins m(self, target, p, margin, weight);
  if (m.p == 2) m.gap = m.gap.square();
  Tensor rows = m.gap.sum(1).div_(m.x.size(1));
  if (m.weight.defined()) rows.mul_(m.weight.squeeze(1));
  const Tensor result = reduced(rows, reduction, target.dim() == 0);
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}
Tensor multi_margin_loss(const Tensor& self, const Tensor& target, const Scalar& p, const Scalar& margin,
                         const OptionalTensor& weight, int64_t reduction) {
  Tensor out = at::empty({0}, self.options());
  return multi_margin_loss_out(self, target, p, margin, weight, reduction, out);
}
Tensor& multi_margin_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, const Scalar& p,
                                  const Scalar& margin, const OptionalTensor& weight, int64_t reduction,
                                  Tensor& grad_input) {
  if (!has_kernels(self, target) || !is_plain(grad) || !is_plain(grad_input) ||
      grad_input.scalar_type() != self.scalar_type())
    return fallback_call<Tensor>("aten::multi_margin_loss_backward", "grad_input", grad, self, target, p, margin,
                                 weight, reduction, grad_input),
           grad_input;
  const Margins m(self, target, p, margin, weight);
  Tensor slope = m.p == 2 ? m.gap.mul(2) : m.gap.gt(0).to(self.scalar_type());
  slope.div_(m.x.size(1));
  if (m.weight.defined()) slope.mul_(m.weight);
  slope.scatter_(1, m.target, slope.sum(1, true).neg_());
  slope.mul_(row_gradient(grad, reduction, m.x.size(0)));
  at::native::resize_output(grad_input, self.sizes());
  return grad_input.copy_(slope.view(self.sizes()));
}
Tensor multi_margin_backward(const Tensor& grad, const Tensor& self, const Tensor& target, const Scalar& p,
                             const Scalar& margin, const OptionalTensor& weight, int64_t reduction) {
  Tensor grad_input = at::empty({0}, self.options());
  return multi_margin_backward_out(grad, self, target, p, margin, weight, reduction, grad_input);
}

// The targets of each row are those before its first -1.
struct Labels {
  Tensor x, target, named;  // `named`: which of the targets count

  Labels(const Tensor& self, const Tensor& where) {
    check_shapes("multilabel_margin_loss", self, where.sizes() == self.sizes(), where);
    const int64_t count = self.dim() < 2 ? 1 : self.size(0);
    x = self.reshape({count, -1});
    const Tensor labels = where.reshape({count, -1});
    named = labels.lt(0).cumsum(1).eq(0);
    const int64_t most = count > 0 ? named.sum(1).max().item<int64_t>() : 0;  // of all rows
    named = named.slice(1, 0, most);
    target = labels.slice(1, 0, most).mul(named).contiguous();
    check_index("multilabel_margin_loss", target, x.size(1), 0, false);
  }
  // Pairs of a target and a class that is none: 1 - x[target] + x[class] where it is above 0.
  Tensor gaps(const Tensor& is_target) const {
    const Tensor wanted = at::where(named, x.gather(1, target).neg_().add_(1), -INFINITY);
    return wanted.unsqueeze(2).add(at::where(is_target.ne(0), -INFINITY, x).unsqueeze(1)).clamp_min_(0);
  }
};

std::tuple<Tensor&, Tensor&> multilabel_out(const Tensor& self, const Tensor& target, int64_t reduction, Tensor& out,
                                            Tensor& is_target) {
  if (!has_kernels(self, target) || !is_plain(out) || !is_plain(is_target) || out.scalar_type() != self.scalar_type()) {
    fallback_call<Pair>("aten::multilabel_margin_loss_forward", "output", self, target, reduction, out, is_target);
    return {out, is_target};
  }
  const Labels l(self, target);
  const Tensor mask = at::zeros(l.x.sizes(), self.options()).scatter_add_(1, l.target, l.named.to(at::kFloat)).gt(0);
  const Tensor rows = l.gaps(mask).sum({1, 2}).div_(l.x.size(1));
  const Tensor result = reduced(rows, reduction, target.dim() <= 1);
  at::native::resize_output(out, result.sizes());
  at::native::resize_output(is_target, target.sizes());
  out.copy_(result);
  is_target.copy_(mask.view(target.sizes()));
  return {out, is_target};
}
Pair multilabel(const Tensor& self, const Tensor& target, int64_t reduction) {
  Tensor out = at::empty({0}, self.options()), is_target = at::empty({0}, self.options());
  multilabel_out(self, target, reduction, out, is_target);
  return {out, is_target};
}
Tensor& multilabel_backward_out(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                                const Tensor& is_target, Tensor& grad_input) {
  if (!has_kernels(self, target) || !is_plain(grad) || !is_plain(is_target) || !is_plain(grad_input) ||
      grad_input.scalar_type() != self.scalar_type())
    return fallback_call<Tensor>("aten::multilabel_margin_loss_backward", "grad_input", grad, self, target, reduction,
                                 is_target, grad_input),
           grad_input;
  const Labels l(self, target);
  const Tensor above = l.gaps(is_target.reshape(l.x.sizes())).gt(0).to(self.scalar_type());
  const Tensor slope = above.sum(1);
  slope.scatter_add_(1, l.target, above.sum(2).neg_());
  slope.div_(l.x.size(1)).mul_(row_gradient(grad, reduction, l.x.size(0)));
  at::native::resize_output(grad_input, self.sizes());
  return grad_input.copy_(slope.view(self.sizes()));
}
Tensor multilabel_backward(const Tensor& grad, const Tensor& self, const Tensor& target, int64_t reduction,
                           const Tensor& is_target) {
  Tensor grad_input = at::empty({0}, self.options());
  return multilabel_backward_out(grad, self, target, reduction, is_target, grad_input);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("multi_margin_loss", &multi_margin_loss);
  m.impl("multi_margin_loss.out", &multi_margin_loss_out);
  m.impl("multi_margin_loss_backward", &multi_margin_backward);
  m.impl("multi_margin_loss_backward.grad_input", &multi_margin_backward_out);
  m.impl("multilabel_margin_loss_forward", &multilabel);
  m.impl("multilabel_margin_loss_forward.output", &multilabel_out);
  m.impl("multilabel_margin_loss_backward", &multilabel_backward);
  m.impl("multilabel_margin_loss_backward.grad_input", &multilabel_backward_out);
}

}  // namespace mpsx::ops
