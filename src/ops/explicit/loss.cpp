// The operators cross_entropy, embedding and fused_adamw_ in torch.ops.mpsx.
#include <ATen/core/Reduction.h>

#include "ops/explicit.h"

namespace mpsx::ops::explicit_ops {
namespace {

using MaybeTensor = std::optional<Tensor>;

at::Reduction::Reduction reduction_of(c10::string_view name) {
  if (name == "none") return at::Reduction::None;
  if (name == "mean") return at::Reduction::Mean;
  TORCH_CHECK(name == "sum", "mpsx::cross_entropy: expected reduction \"none\", \"mean\" or \"sum\", got \"", name,
              "\"");
  return at::Reduction::Sum;
}

Tensor sum_of(const Tensor& t) { return run<"sum">(t, std::vector<int64_t>{}, false, IValue()); }
Tensor sum_over_classes(const Tensor& t) { return run<"sum">(t, std::vector<int64_t>{-1}, false, IValue()); }
Tensor scaled(const Tensor& t, double factor) { return factor == 1.0 ? t : run<"mul.Scalar">(t, at::Scalar(factor)); }

// Log-probabilities and targets. The class dimension is the last one.
struct Rows {
  Tensor log_probabilities, target;
  c10::SymInt classes;
};

// Returns the loss for targets that are class indices. Label smoothing adds a share of the loss averaged over all
// classes and over the rows that are not ignored (C. Szegedy et al., arXiv:1512.00567, section 7). The weights are
// applied as in PyTorch.
Tensor index_loss(const Rows& rows, const MaybeTensor& weight, int64_t reduction, const c10::SymInt& ignored,
                  double smoothing) {
  const Stack nll = run_all<"nll_loss">(rows.log_probabilities, rows.target, weight, reduction, ignored);
  if (smoothing == 0.0) return nll[0].toTensor();
  const bool weighted = weight && weight->defined();
  Tensor smooth = run<"neg">(
      sum_over_classes(weighted ? run<"mul">(rows.log_probabilities, *weight) : rows.log_probabilities));
  smooth = run<"masked_fill">(
      smooth, run<"eq.Scalar">(rows.target, at::Scalar(ignored.guard_int(__FILE__, __LINE__))), at::Scalar(0));
  if (reduction != at::Reduction::None) smooth = sum_of(smooth);
  if (reduction == at::Reduction::Mean) smooth = run<"div">(smooth, nll[1].toTensor());
  const double share = smoothing / double(rows.classes.guard_int(__FILE__, __LINE__));
  return run<"add">(scaled(nll[0].toTensor(), 1.0 - smoothing), scaled(smooth, share), at::Scalar(1));
}

Tensor probability_loss(const Rows& rows, const MaybeTensor& weight, int64_t reduction, double smoothing) {
  Tensor target = rows.target;
  if (smoothing > 0.0) {
    const double share = smoothing / double(rows.classes.guard_int(__FILE__, __LINE__));
    target = run<"add.Scalar">(scaled(target, 1.0 - smoothing), at::Scalar(share), at::Scalar(1));
  }
  Tensor terms = run<"mul">(rows.log_probabilities, target);
  if (weight && weight->defined()) terms = run<"mul">(terms, *weight);
  const Tensor losses = run<"neg">(sum_over_classes(terms));
  if (reduction == at::Reduction::None) return losses;
  const Tensor total = sum_of(losses);
  if (reduction == at::Reduction::Sum) return total;
  const double count = double(losses.sym_numel().guard_int(__FILE__, __LINE__));
  return run<"div.Scalar">(total, at::Scalar(count));
}

Tensor cross_entropy(const Tensor& input, const Tensor& target, const MaybeTensor& weight, c10::SymInt ignore_index,
                     c10::string_view reduction_name, double smoothing) {
  constexpr const char* op = "mpsx::cross_entropy";
  check_same_device(op, input, target, weight);
  const int64_t reduction = reduction_of(reduction_name);
  TORCH_CHECK(smoothing >= 0.0 && smoothing <= 1.0, op, ": expected label_smoothing from 0 to 1, got ", smoothing);
  TORCH_CHECK(input.dim() >= 1, op, ": expected an input of at least one dimension, got none");
  const int64_t class_dim = input.dim() == 1 ? 0 : 1;
  const c10::SymInt classes = input.sym_size(class_dim);
  TORCH_CHECK(!weight || !weight->defined() || (weight->dim() == 1 && weight->sym_size(0) == classes), op,
              ": expected a weight of ", classes, " classes, got shape ",
              weight && weight->defined() ? weight->sym_sizes() : c10::SymIntArrayRef());
  TORCH_CHECK(!weight || !weight->defined() || !weight->requires_grad() || !at::GradMode::is_enabled(), op,
              ": expected a weight that does not require a gradient, because its gradient is not implemented");
  c10::SymDimVector outer(input.sym_sizes().begin(), input.sym_sizes().end());
  outer.erase(outer.begin() + class_dim);

  const auto as_rows = [&](const Tensor& t) {
    return t.dim() <= 2 ? t : t.movedim(class_dim, -1).reshape_symint({-1, classes});
  };
  const Tensor flat = as_rows(input);
  const auto log_softmax = [&] { return run<"log_softmax">(flat, int64_t(-1), IValue()); };
  Tensor loss;
  if (at::isFloatingType(target.scalar_type())) {
    TORCH_CHECK(target.sym_sizes() == input.sym_sizes(), op, ": expected target probabilities of the input's shape ",
                input.sym_sizes(), ", got ", target.sym_sizes());
    loss = probability_loss({log_softmax(), as_rows(target), classes}, weight, reduction, smoothing);
  } else {
    TORCH_CHECK(target.sym_sizes() == c10::SymIntArrayRef(outer), op, ": expected target indices of shape ",
                c10::SymIntArrayRef(outer), " for an input of ", input.sym_sizes(), ", got ", target.sym_sizes());
    const Tensor indices = target.dim() <= 1 ? target : target.reshape_symint({-1});
    loss = smoothing == 0.0 && flat.dim() == 2
               ? run<"cross_entropy_rows">(flat, indices, weight, reduction, ignore_index, false)
               : index_loss({log_softmax(), indices, classes}, weight, reduction, ignore_index, smoothing);
  }
  return reduction == at::Reduction::None && input.dim() > 2 ? loss.reshape_symint(outer) : loss;
}

Gradients nll_loss_derivative(const BackwardCall& c) {
  return {{0, run<"nll_loss_backward">(c.grad(), c.tensor(0), c.tensor(1), c.argument(2), c.argument(3), c.argument(4),
                                       c.result(1))}};
}

Gradients sum_derivative(const BackwardCall& c) {
  const auto sizes = c.sizes(0);
  Tensor g = c.grad();
  const auto dims = c.argument(1).isNone() ? std::vector<int64_t>{} : c.argument(1).toIntVector();
  if (!dims.empty() && !c.argument(2).toBool()) {
    std::vector<int64_t> sorted;
    for (int64_t d : dims) sorted.push_back(d < 0 ? d + int64_t(sizes.size()) : d);
    std::sort(sorted.begin(), sorted.end());
    for (int64_t d : sorted) g = g.unsqueeze(d);
  }
  return {{0, g.expand_symint(sizes)}};
}

Tensor embedding(const Tensor& input, const Tensor& weight, std::optional<c10::SymInt> padding, bool by_frequency) {
  constexpr const char* op = "mpsx::embedding";
  check_same_device(op, input, weight);
  TORCH_CHECK(input.scalar_type() == at::kLong || input.scalar_type() == at::kInt, op,
              ": expected int64 or int32 indices as input, got ", input.scalar_type(),
              " (the order is input, weight, as in torch.nn.functional)");
  TORCH_CHECK(weight.dim() == 2, op, ": expected a weight of two dimensions, got shape ", weight.sym_sizes());
  const c10::SymInt rows = weight.sym_size(0);
  c10::SymInt index = -1;  // no padding index
  if (padding) {
    TORCH_CHECK(*padding < rows && *padding >= -rows, op, ": expected padding_idx within ", rows, " rows, got ",
                *padding);
    index = *padding < 0 ? *padding + rows : *padding;
  }
  return run<"native_embedding">(weight, input, index, by_frequency, false);
}

Gradients embedding_derivative(const BackwardCall& c) {
  return {{0, run<"embedding_backward">(c.grad(), c.tensor(1), c.sizes(0)[0], c.argument(2), c.argument(3))}};
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  for (const Mirror& mirror : std::initializer_list<Mirror>{
           {"sum", "sum", "dim_IntList", Accepts::FLOATS},
           {"nll_loss", "nll_loss_forward", "", Accepts::FLOATS},
           {"nll_loss_backward", "nll_loss_backward", "", Accepts::FLOATS},
           {"native_embedding", "embedding", "", Accepts::FLOATS},
           {"embedding_backward", "embedding_dense_backward", "", Accepts::FLOATS},
           {"fused_adamw_", "_fused_adamw_", "", Accepts::FLOATS},
           {"fused_adamw_", "_fused_adamw_", "tensor_lr", Accepts::FLOATS, "tensor_lr"},
       })
    mirror_aten(m, mirror);
  add_derivative(m, {"sum", 0, 0, &sum_derivative});
  add_derivative(m, {"nll_loss", kept({0, 1, 2}), kept({1}), &nll_loss_derivative});
  add_derivative(m, {"native_embedding", kept({1}), 0, &embedding_derivative});
  add_not_differentiable(m, "nll_loss_backward");
  add_not_differentiable(m, "embedding_backward");
  m.def("cross_entropy(Tensor input, Tensor target, Tensor? weight=None, SymInt ignore_index=-100, "
        "str reduction=\"mean\", float label_smoothing=0.0) -> Tensor",
        &cross_entropy, {at::Tag::pt2_compliant_tag});
  m.def("embedding(Tensor input, Tensor weight, SymInt? padding_idx=None, bool scale_grad_by_freq=False) -> Tensor",
        &embedding, {at::Tag::pt2_compliant_tag});
}

}  // namespace mpsx::ops::explicit_ops
