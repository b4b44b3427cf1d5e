// The operators softmax, log_softmax, linear and conv2d in torch.ops.mpsx.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/explicit.h"

namespace mpsx::ops::explicit_ops {
namespace {

using torch::autograd::variable_list;

template <OpName Backward>
Gradients softmax_derivative(const BackwardCall& c) {
  const Tensor& y = c.result();
  return {{0, run<Backward>(c.grad(), y, c.argument(1), int64_t(y.scalar_type()))}};
}

// The derivative of y = x W^T + b. The leading dimensions of x are flattened into rows.
Gradients linear_derivative(const BackwardCall& c) {
  const Tensor &g = c.grad(), x = c.tensor(0), weight = c.tensor(1);
  Gradients gradients;
  const auto in = c.sizes(0), shape = c.sizes(1);
  const bool vector = shape.size() == 1;  // the weight has no output dimension
  const Tensor rows = vector ? g.reshape_symint({-1, 1}) : g.reshape_symint({-1, shape[0]});
  if (c.needs(0))
    gradients.emplace_back(0, run<"mm">(rows, vector ? weight.unsqueeze(0) : weight).reshape_symint(in));
  if (c.needs(1))
    gradients.emplace_back(1, run<"mm">(rows.t(), x.reshape_symint({-1, in.back()})).reshape_symint(shape));
  if (c.needs(2)) gradients.emplace_back(2, g);  // the caller sums the gradient over the rows
  return gradients;
}

Gradients mm_derivative(const BackwardCall& c) {
  Gradients gradients;
  if (c.needs(0)) gradients.emplace_back(0, run<"mm">(c.grad(), c.tensor(1).t()));
  if (c.needs(1)) gradients.emplace_back(1, run<"mm">(c.tensor(0).t(), c.grad()));
  return gradients;
}

struct Cat : torch::autograd::Function<Cat> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, at::TensorList tensors, int64_t dim) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const Tensor result = run<"cat">(tensors.vec(), dim);
    std::vector<int64_t> sizes;
    // cat ignores empty 1-D tensors.
    for (const Tensor& t : tensors) sizes.push_back(t.dim() == 1 && t.numel() == 0 ? 0 : t.size(dim));
    ctx->saved_data["sizes"] = sizes;
    ctx->saved_data["dim"] = dim;
    return result;
  }
  static variable_list backward(torch::autograd::AutogradContext* ctx, variable_list grads) {
    const int64_t dim = ctx->saved_data["dim"].toInt();
    variable_list gradients;
    int64_t start = 0;
    for (const int64_t size : ctx->saved_data["sizes"].toIntVector()) {
      gradients.push_back(size ? grads[0].narrow(dim, start, size) : Tensor());
      start += size;
    }
    gradients.emplace_back();  // no gradient for dim
    return gradients;
  }
};

Tensor cat_with_gradients(at::TensorList tensors, int64_t dim) { return Cat::apply(tensors, dim); }

Gradients conv2d_derivative(const BackwardCall& c) {
  const Tensor input = c.tensor(0), weight = c.tensor(1);
  const bool batched = input.dim() == 4;
  const auto batch = [&](const Tensor& t) { return batched ? t : t.unsqueeze(0); };
  const bool bias = c.needs(2);
  const Stack all = run_all<"convolution_backward">(
      batch(c.grad()), batch(input), weight, bias ? IValue(c10::SymIntArrayRef({weight.sym_size(0)})) : IValue(),
      c.argument(3), c.argument(4), c.argument(5), false, std::vector<int64_t>{0, 0}, c.argument(6),
      std::vector<bool>{c.needs(0), c.needs(1), bias});
  Gradients gradients;
  if (c.needs(0)) gradients.emplace_back(0, batched ? all[0].toTensor() : all[0].toTensor().squeeze(0));
  if (c.needs(1)) gradients.emplace_back(1, all[1].toTensor());
  if (bias) gradients.emplace_back(2, all[2].toTensor());
  return gradients;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(mpsx, m) {
  for (const Mirror& mirror : std::initializer_list<Mirror>{
           {"softmax", "softmax", "int", Accepts::FLOATS},
           {"log_softmax", "log_softmax", "int", Accepts::FLOATS},
           {"softmax_backward", "_softmax_backward_data", "", Accepts::FLOATS},
           {"log_softmax_backward", "_log_softmax_backward_data", "", Accepts::FLOATS},
           {"linear", "linear", "", Accepts::FLOATS},
           {"mm", "mm", "", Accepts::FLOATS},
           {"cat", "cat", "", Accepts::NUMBERS},
           {"conv2d", "conv2d", "", Accepts::FLOATS},
           {"convolution_backward", "convolution_backward", "", Accepts::FLOATS},
       })
    mirror_aten(m, mirror);
  add_derivative(m, {"softmax", 0, kept({0}), &softmax_derivative<"softmax_backward">});
  add_derivative(m, {"log_softmax", 0, kept({0}), &softmax_derivative<"log_softmax_backward">});
  add_derivative(m, {"linear", kept({0, 1}), 0, &linear_derivative,
                     [](uint64_t wanted) { return (wanted & 1) << 1 | (wanted >> 1 & 1); }});
  add_derivative(m, {"conv2d", kept({0, 1}), 0, &conv2d_derivative});
  add_derivative(m, {"mm", kept({0, 1}), 0, &mm_derivative,
                     [](uint64_t wanted) { return (wanted & 1) << 1 | (wanted >> 1 & 1); }});
  m.impl("cat", torch::dispatch(c10::DispatchKey::Autograd, &cat_with_gradients));
  for (const char* name : {"softmax_backward", "log_softmax_backward", "convolution_backward"})
    add_not_differentiable(m, name);
}

}  // namespace mpsx::ops::explicit_ops
