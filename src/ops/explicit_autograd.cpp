// Autograd for the explicit operators. There is one boxed kernel and one graph node, both parameterized by a
// Derivative.
#include <ATen/core/LegacyTypeDispatch.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <memory>

#include "ops/autograd_node.h"
#include "ops/explicit.h"

namespace mpsx::ops::explicit_ops {
namespace {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

Shape shape_of(const Tensor& t) {
  return {true, c10::SymDimVector(t.sym_sizes().begin(), t.sym_sizes().end()), t.scalar_type()};
}

Tensor fitted(Tensor gradient, const Shape& shape) {
  if (gradient.sym_sizes() != c10::SymIntArrayRef(shape.sizes))
    gradient = run<"sum_to_size">(gradient, c10::SymIntArrayRef(shape.sizes));
  return gradient.scalar_type() == shape.dtype ? gradient : gradient.to(shape.dtype);
}

struct ExplicitBackward final : torch::autograd::Node {
  const Derivative* derivative = nullptr;
  uint64_t kept_arguments = 0;
  std::vector<IValue> arguments;  // with None in place of tensors
  std::vector<Shape> shapes;      // shapes of the tensor arguments
  std::vector<SavedVariable> saved_arguments, saved_results;
  size_t result_count = 0;
  bool released = false;

  std::string name() const override { return std::string("Mpsx<") + derivative->op + ">Backward"; }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    saved_arguments.clear();
    saved_results.clear();
    released = true;
  }

  variable_list apply(variable_list&& grads) override {
    std::lock_guard<std::mutex> lock(mutex_);
    variable_list gradients(num_outputs());
    if (!grads[0].defined()) return gradients;
    TORCH_CHECK(!released, torch::autograd::ERR_BACKWARD_TWICE);
    std::vector<IValue> values = arguments;
    std::vector<Tensor> results(result_count);
    for (size_t i = 0, k = 0; i < values.size(); ++i)
      if (shapes[i].defined && kept_arguments >> i & 1) values[i] = saved_arguments[k++].unpack();
    for (size_t i = 0, k = 0; i < result_count; ++i)
      if (derivative->results >> i & 1) results[i] = saved_results[k++].unpack(getptr());
    uint64_t needed = 0;
    std::vector<size_t> edge(values.size());
    for (size_t i = 0, k = 0; i < values.size(); ++i)
      if (shapes[i].defined) {
        edge[i] = k;
        if (task_should_compute_output(k++)) needed |= uint64_t(1) << i;
      }
    const BackwardCall call(derivative->op, grads[0], values, shapes, results, needed);
    for (auto& [i, gradient] : derivative->formula(call))
      if (needed >> i & 1 && gradient.defined()) gradients[edge[i]] = fitted(std::move(gradient), shapes[i]);
    return gradients;
  }
};

uint64_t kept_by(const Derivative& derivative, c10::ArrayRef<IValue> arguments) {
  if (!derivative.narrowed) return derivative.arguments;
  uint64_t wanted = 0;
  for (size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].isTensor() && arguments[i].toTensor().defined() && arguments[i].toTensor().requires_grad())
      wanted |= uint64_t(1) << i;
  return derivative.arguments & derivative.narrowed(wanted);
}

void record(const c10::OperatorHandle& op, const Derivative& derivative, c10::DispatchKeySet keys, Stack* stack) {
  auto node = make_node<ExplicitBackward>();
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  node->derivative = &derivative;
  node->kept_arguments = kept_by(derivative, arguments);
  torch::autograd::edge_list edges;
  for (const IValue& value : arguments) {
    const size_t i = node->arguments.size();
    const bool tensor = value.isTensor() && value.toTensor().defined();
    node->arguments.push_back(value.isTensor() ? IValue() : value);
    node->shapes.push_back(tensor ? shape_of(value.toTensor()) : Shape());
    if (!tensor) continue;
    edges.push_back(torch::autograd::impl::gradient_edge(value.toTensor()));
    if (node->kept_arguments >> i & 1) node->saved_arguments.emplace_back(value.toTensor(), /*is_output=*/false);
  }
  node->set_next_edges(std::move(edges));
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  node->result_count = op.schema().returns().size();
  const auto results = torch::jit::last(*stack, node->result_count);
  if (!torch::autograd::isDifferentiableType(results[0].toTensor().scalar_type())) return;
  torch::autograd::set_history(results[0].toTensor(), node);
  for (size_t i = 0; i < node->result_count; ++i)
    if (derivative.results >> i & 1) node->saved_results.emplace_back(results[i].toTensor(), /*is_output=*/i == 0);
}

class AutogradKernel final : public c10::OperatorKernel {
 public:
  explicit AutogradKernel(const Derivative& derivative) : derivative_(derivative) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    bool needs_graph = false;
    for (const IValue& value : torch::jit::last(*stack, op.schema().arguments().size())) {
      if (!value.isTensor()) continue;
      const Tensor& t = value.toTensor();
      if (!t.defined()) continue;
      needs_graph |= t.requires_grad();
      TORCH_CHECK_NOT_IMPLEMENTED(!t._fw_grad(/*level=*/0).defined(), op.schema().name(),
                                  ": forward-mode gradients are not implemented");
    }
    if (needs_graph && at::GradMode::is_enabled()) return record(op, derivative_, keys, stack);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }

 private:
  Derivative derivative_;
};

}  // namespace

Gradients aten_gradient(const BackwardCall& call) {
  const bool twice = at::GradMode::is_enabled();
  const at::AutoGradMode recorded(true);
  const Tensor x = call.tensor(0).requires_grad() ? call.tensor(0) : call.tensor(0).detach().requires_grad_();
  Stack stack{x};
  c10::Dispatcher::singleton().findSchemaOrThrow((std::string("aten::") + call.op()).c_str(), "").callBoxed(stack);
  return {{0, torch::autograd::grad({stack[0].toTensor()}, {x}, {call.grad()}, std::nullopt, twice)[0]}};
}

void add_derivative(torch::Library& m, const Derivative& derivative) {
  m.impl(derivative.op, torch::dispatch(c10::DispatchKey::Autograd,
                                        torch::CppFunction::makeFromBoxedFunctor(
                                            std::make_unique<AutogradKernel>(derivative))));
}

// Autograd for operators that write their arguments. Throws if an argument requires a gradient, and bumps version
// counters. Unlike PyTorch's own kernel for in-place operators, this also handles tensors in lists.
void write_in_place(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  std::vector<Tensor> written;
  const auto& arguments = op.schema().arguments();
  const auto values = torch::jit::last(*stack, arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::vector<Tensor> tensors;
    if (values[i].isTensor()) tensors.push_back(values[i].toTensor());
    if (values[i].isTensorList()) tensors = values[i].toTensorVector();
    for (const Tensor& t : tensors)
      TORCH_CHECK(!t.defined() || !t.requires_grad() || !at::GradMode::is_enabled(), op.schema().name(),
                  ": is not differentiable; call it under torch.no_grad()");
    if (arguments[i].alias_info() && arguments[i].alias_info()->isWrite())
      written.insert(written.end(), tensors.begin(), tensors.end());
  }
  {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  for (const Tensor& t : written)
    if (t.defined() && !t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
}

void add_in_place_autograd(torch::Library& m, const char* name) {
  m.impl(name, torch::dispatch(c10::DispatchKey::Autograd,
                               torch::CppFunction::makeFromBoxedFunction<&write_in_place>()));
}

void add_not_differentiable(torch::Library& m, const char* name) {
  m.impl(name, torch::dispatch(c10::DispatchKey::Autograd, torch::autograd::autogradNotImplementedFallback()));
}

}  // namespace mpsx::ops::explicit_ops
