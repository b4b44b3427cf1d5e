// Linear layers as single nodes of the autograd graph. PyTorch composes aten::linear of views, a transpose and addmm,
// and autocast adds casts of the weight and the bias. Each of these up to seven nodes takes more CPU time in the
// backward pass than the launch of a kernel.
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/view_native.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/library.h>

#include <mutex>

#include "ops/autograd_node.h"
#include "ops/op.h"
#include "ops/strided_view.h"

namespace mpsx::ops {
namespace {

using c10::DispatchKey;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// The operands of x @ weight.T + bias, or of x @ weight + bias if `transposed` is false. Autocast has cast the weight
// and the bias from the sources, which receive the gradients. The bias may be undefined.
struct Layer {
  const Tensor &input, &weight, &bias, &weight_source, &bias_source;
  bool transposed;
};

// Returns whether only autograd and autocast intercept operators on `t`.
bool has_plain_keys(const Tensor& t) {
  constexpr c10::DispatchKeySet plain{DispatchKey::PrivateUse1, DispatchKey::ADInplaceOrView,
                                      DispatchKey::AutogradPrivateUse1, DispatchKey::AutocastPrivateUse1};
  return t.key_set() == plain;
}
// Returns whether a mode, a trace or a transform intercepts operators.
bool is_intercepted() {
  constexpr c10::DispatchKeySet modes{DispatchKey::Python, DispatchKey::PythonTLSSnapshot, DispatchKey::Tracer,
                                      DispatchKey::FuncTorchDynamicLayerFrontMode};
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  return keys.included_.has_any(modes) || keys.excluded_.has(DispatchKey::AutogradPrivateUse1);
}

Tensor as_matrix(const Tensor& t) { return t.dim() == 2 ? t : t.reshape_symint({-1, t.sym_size(-1)}); }
bool is_column_major(const Tensor& t) { return t.stride(0) == 1 && t.stride(1) == t.size(0); }

struct LinearBackward final : torch::autograd::Node {
  SavedVariable input, weight;
  bool transposed = false, column_major = false;  // column_major: the layout of the weight and its gradient

  std::string name() const override { return "LinearBackward"; }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    input.reset_data();
    weight.reset_data();
  }

  // The engine casts the gradients to the types of the sources.
  variable_list apply(variable_list&& grads) override {
    std::lock_guard<std::mutex> lock(mutex_);
    // Hooks may compute the saved tensors with autograd, so call them first.
    const Saved saved = unpack();
    std::optional<at::AutoDispatchBelowADInplaceOrView> below_autograd;
    if (!at::GradMode::is_enabled() && grads[0].defined() && has_plain_keys(grads[0]) && !is_intercepted())
      below_autograd.emplace();
    return gradients(grads[0], saved, num_outputs());
  }

  // Compiled autograd calls these.
  void compiled_args(torch::dynamo::autograd::CompiledNodeArgs& args) const override {
    args.collect(input, /*is_output=*/false);
    args.collect(weight, /*is_output=*/false);
    args.collect(transposed);
    args.collect(column_major);
  }
  variable_list apply_with_saved(const variable_list& grads,
                                 torch::dynamo::autograd::SwapSavedVariables& swap) override {
    namespace compiled = torch::dynamo::autograd;
    swap.before(input);
    swap.before(weight);
    const Saved saved = unpack();
    compiled::PackedArgs packed;
    packed.pack(saved.weight);
    packed.pack(saved.input);
    packed.pack(saved.wants_bias);
    packed.pack(saved.transposed);
    packed.pack(saved.column_major);
    packed.pack(int64_t(num_outputs()));
    const auto metadata = compiled::IValuePacker<std::vector<std::optional<torch::autograd::InputMetadata>>>::pack(
        compiled::get_input_metadata(next_edges()));
    const auto& compiler = compiled::getPyCompilerInterface();
    static std::once_flag once;
    std::call_once(once, [&] {
      const at::TypePtr tensor = at::TensorType::get(), flag = at::BoolType::get();
      compiler->bind_function(swap.get_py_compiler(), name(), &apply_packed,
                              {tensor, tensor, flag, flag, flag, at::IntType::get()});
    });
    variable_list result = compiler->call_function(swap.get_py_compiler(), "apply_functional", name(), grads,
                                                   std::move(packed).vec(), metadata);
    swap.after(input);
    swap.after(weight);
    return result;
  }

 private:
  // The saved tensors that the wanted gradients need. The others are undefined.
  struct Saved {
    Tensor weight, input;
    bool wants_bias, transposed, column_major;
  };

  Saved unpack() {
    return {task_should_compute_output(0) ? weight.unpack() : Tensor(),
            task_should_compute_output(1) ? input.unpack() : Tensor(),
            num_outputs() > 2 && task_should_compute_output(2), transposed, column_major};
  }

  static variable_list gradients(const Tensor& given, const Saved& saved, size_t outputs) {
    variable_list result(outputs);
    if (!given.defined()) return result;
    const Tensor grad = as_matrix(given);
    if (saved.weight.defined()) {
      const Tensor product = grad.mm(saved.transposed ? saved.weight : saved.weight.t());
      auto sizes = given.sym_sizes().vec();
      sizes.back() = product.sym_size(1);
      result[0] = sizes.size() == 2 ? product : product.view_symint(sizes);
    }
    if (saved.input.defined()) {
      const Tensor x = as_matrix(saved.input);
      const Tensor product = saved.transposed == saved.column_major ? x.t().mm(grad) : grad.t().mm(x);
      result[1] = saved.column_major ? product.t() : product;
    }
    if (saved.wants_bias) result[2] = grad.sum(0);
    return result;
  }

  static variable_list apply_packed(const variable_list& grads, const std::vector<c10::IValue>& arguments) {
    torch::dynamo::autograd::PackedArgs packed(arguments);
    Saved saved;
    saved.weight = packed.unpack<Tensor>();
    saved.input = packed.unpack<Tensor>();
    saved.wants_bias = packed.unpack<bool>();
    saved.transposed = packed.unpack<bool>();
    saved.column_major = packed.unpack<bool>();
    return gradients(grads[0], saved, size_t(packed.unpack<int64_t>()));
  }
};

// Returns whether the layer is a GEMM of dense matrices and is not part of a transform or a trace, which expect
// PyTorch's composition.
bool is_plain_layer(const Layer& l) {
  const auto is_operand = [&](const Tensor& t) {
    return has_plain_keys(t) && t.scalar_type() == l.input.scalar_type() && !t._fw_grad(/*level=*/0).defined();
  };
  if (!is_operand(l.input) || !is_operand(l.weight) || (l.bias.defined() && !is_operand(l.bias))) return false;
  if (is_intercepted() || !is_float_tag(tag_of(l.input)) || l.weight.dim() != 2 || l.input.dim() < 2) return false;
  const int64_t K = l.weight.size(l.transposed ? 1 : 0), N = l.weight.size(l.transposed ? 0 : 1);
  return l.input.numel() > 0 && N > 0 && l.input.size(-1) == K && (l.input.dim() == 2 || l.input.is_contiguous()) &&
         (!l.bias.defined() || (l.bias.dim() == 1 && l.bias.size(0) == N));
}

Tensor forward(const Layer& l) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  const int64_t K = l.input.size(-1), N = l.weight.size(l.transposed ? 0 : 1);
  const Tensor x = l.input.dim() == 2 ? l.input : strided_view(l.input, {l.input.numel() / K, K}, {K, 1});
  const Tensor w = l.transposed ? strided_view(l.weight, {K, N}, {l.weight.stride(1), l.weight.stride(0)}) : l.weight;
  Tensor y = l.bias.defined() ? at::addmm(l.bias, x, w) : at::mm(x, w);
  if (l.input.dim() == 2) return y;
  auto sizes = l.input.sizes().vec();
  sizes.back() = N;
  return at::native::view(y, sizes);
}

Tensor record(const Layer& l) {
  const bool wants_weight = l.weight_source.requires_grad();
  const bool needed = l.input.requires_grad() || wants_weight || (l.bias.defined() && l.bias_source.requires_grad());
  if (!needed || !at::GradMode::is_enabled()) return forward(l);
  auto node = make_node<LinearBackward>();
  torch::autograd::edge_list edges{torch::autograd::impl::gradient_edge(l.input),
                                   torch::autograd::impl::gradient_edge(l.weight_source)};
  if (l.bias.defined()) edges.push_back(torch::autograd::impl::gradient_edge(l.bias_source));
  node->set_next_edges(std::move(edges));
  node->transposed = l.transposed;
  node->column_major = is_column_major(l.weight_source);
  if (wants_weight) node->input = SavedVariable(l.input, /*is_output=*/false);
  if (l.input.requires_grad()) node->weight = SavedVariable(l.weight, /*is_output=*/false);
  const Tensor out = forward(l);
  torch::autograd::set_history(out, node);
  return out;
}

Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias_given) {
  const Tensor bias = bias_given.value_or(Tensor());
  const Layer layer{input, weight, bias, weight, bias, true};
  return is_plain_layer(layer) ? record(layer) : at::native::linear(input, weight, bias_given);
}

Tensor cast(const Tensor& t) {
  return at::autocast::cached_cast(at::autocast::get_autocast_dtype(at::kPrivateUse1), t, at::kPrivateUse1);
}

Tensor linear_under_autocast(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias_given) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(DispatchKey::AutocastPrivateUse1);
  const Tensor bias_source = bias_given.value_or(Tensor());
  const Tensor x = cast(input), w = cast(weight), bias = bias_source.defined() ? cast(bias_source) : Tensor();
  const Layer layer{x, w, bias, weight, bias_source, true};
  return is_plain_layer(layer) ? record(layer) : at::linear(x, w, bias.defined() ? std::optional(bias) : std::nullopt);
}

// Layers that store their weight transposed call addmm.
Tensor addmm_under_autocast(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const at::Scalar& beta,
                            const at::Scalar& alpha) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(DispatchKey::AutocastPrivateUse1);
  const Tensor c = cast(self), a = cast(mat1), b = cast(mat2);
  const Layer layer{a, b, c, mat2, self, false};
  const bool is_layer = !b.is_same(mat2) && a.dim() == 2 && beta.equal(1) && alpha.equal(1) && is_plain_layer(layer);
  return is_layer ? record(layer) : at::addmm(c, a, b, beta, alpha);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("linear", &linear); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  m.impl("linear", &linear_under_autocast);
  m.impl("addmm", &addmm_under_autocast);
}

}  // namespace
}  // namespace mpsx::ops
