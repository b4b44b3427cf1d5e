// The explicit operators, torch.ops.mpsx.*, make our kernels available by name, for tensors on this device and on the
// CPU, without a copy.
//
// Each operator is defined once, by mirror_aten, by define_op or as a composite. It has
//   - a kernel for this device: argument checks, then the aten operator that it mirrors, or its own function
//   - a CPU kernel: the same kernel, run on device views of the arguments' memory
//   - a Meta kernel, which FakeTensor and torch.compile also use
//   - for differentiable operators, a Derivative, whose formula also uses explicit operators
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/SymIntArrayRef.h>
#include <torch/library.h>

#include <algorithm>
#include <string>

namespace mpsx::ops::explicit_ops {

using at::Tensor;
using c10::IValue;
using torch::jit::Stack;

// The element types that an operator accepts. With FLOATS, only the first tensor must be floating-point.
enum class Accepts : uint8_t { FLOATS, NUMBERS };

// Throws unless all tensors are on mpsx, all are on the CPU, or all are on meta.
void check_devices(const std::string& op, c10::ArrayRef<IValue> arguments);
template <typename... Tensors>
void check_same_device(const char* op, const Tensors&... tensors) {
  const std::array<IValue, sizeof...(tensors)> values{IValue(tensors)...};
  check_devices(op, values);
}

struct Mirror {
  const char* name;      // mpsx::<name>
  const char* target;    // aten::<target>
  const char* overload;  // aten::<target>.<overload>
  Accepts accepts;
  const char* own_overload = "";
  // If not null, the operator whose Meta kernel to use. Needed if the target's own Meta kernel computes the wrong
  // strides.
  const char* meta = nullptr;
};

// Defines an operator with the schema and semantics of an aten operator. The argument "self" is renamed to "input", or
// to "params" if it is a list.
void mirror_aten(torch::Library& m, const Mirror& mirror);
bool exists_in_aten(const Mirror& mirror);

// Defines an operator with its own schema and its own kernels, `device` for this device and `meta` for Meta.
void define_op(torch::Library& m, const char* schema, Accepts accepts, c10::KernelFunction device,
               c10::KernelFunction meta);
template <typename Device, typename Meta>
void define_op(torch::Library& m, const char* schema, Accepts accepts, Device* device, Meta* meta) {
  define_op(m, schema, accepts, c10::KernelFunction::makeFromUnboxedRuntimeFunction(device),
            c10::KernelFunction::makeFromUnboxedRuntimeFunction(meta));
}

// The sizes and the dtype that the gradient of an argument must have.
struct Shape {
  bool defined = false;
  c10::SymDimVector sizes;
  at::ScalarType dtype = at::kFloat;
};

// The inputs of a derivative formula.
class BackwardCall {
 public:
  BackwardCall(const char* op, Tensor grad, c10::ArrayRef<IValue> arguments, c10::ArrayRef<Shape> shapes,
               c10::ArrayRef<Tensor> results, uint64_t needed)
      : op_(op), grad_(std::move(grad)), arguments_(arguments), shapes_(shapes), results_(results), needed_(needed) {}
  const char* op() const { return op_; }
  const Tensor& grad() const { return grad_; }
  // Returns an argument of the call. A tensor is available only if the derivative saves it, but its sizes are always
  // available.
  const IValue& argument(size_t i) const { return arguments_[i]; }
  Tensor tensor(size_t i) const { return arguments_[i].isTensor() ? arguments_[i].toTensor() : Tensor(); }
  c10::SymIntArrayRef sizes(size_t i) const { return shapes_[i].sizes; }
  const Tensor& result(size_t i = 0) const { return results_[i]; }
  bool needs(size_t argument) const { return needed_ >> argument & 1; }

 private:
  const char* op_;
  Tensor grad_;
  c10::ArrayRef<IValue> arguments_;
  c10::ArrayRef<Shape> shapes_;
  c10::ArrayRef<Tensor> results_;
  uint64_t needed_;
};

// Gradients, by argument index. A formula may omit gradients that are not needed. To undo broadcasting, the caller sums
// each gradient to the argument's shape. It then casts the gradient to the argument's dtype.
using Gradients = std::vector<std::pair<size_t, Tensor>>;

constexpr uint64_t kept(std::initializer_list<int> indices) {
  uint64_t mask = 0;
  for (int i : indices) mask |= uint64_t(1) << i;
  return mask;
}

struct Derivative {
  const char* op;      // "exp"
  uint64_t arguments;  // tensors to save for the backward pass, as in kept({0})
  uint64_t results;
  Gradients (*formula)(const BackwardCall&);  // result 0 is the only differentiable one
  // Optional. Reduces the set of `arguments` to save, given which arguments need a gradient.
  uint64_t (*narrowed)(uint64_t wanted) = nullptr;
};

void add_derivative(torch::Library& m, const Derivative& derivative);
// Formula for unary operators that have an aten counterpart. It recomputes the forward pass and uses aten's derivative.
Gradients aten_gradient(const BackwardCall& call);
// For operators that only derivatives use. A second derivative then throws an error that names the operator.
void add_not_differentiable(torch::Library& m, const char* name);
// For operators that write their arguments. Bumps version counters, and throws if an argument requires a gradient.
void add_in_place_autograd(torch::Library& m, const char* name);

// Calls an explicit operator, as in run<"mul">(a, b) or run<"mul.Scalar">(a, 2). All arguments must be passed,
// including those with defaults.
template <size_t N>
struct OpName {
  char text[N];
  consteval OpName(const char (&s)[N]) { std::copy(s, s + N, text); }
};
c10::OperatorHandle find_op(const std::string& name);
template <OpName Name, typename... Arguments>
Stack run_all(const Arguments&... arguments) {
  static const c10::OperatorHandle op = find_op(Name.text);
  Stack stack;
  stack.reserve(sizeof...(arguments));
  torch::jit::push(stack, arguments...);
  op.callBoxed(stack);
  return stack;
}
template <OpName Name, typename... Arguments>
Tensor run(const Arguments&... arguments) {
  return run_all<Name>(arguments...)[0].toTensor();
}

}  // namespace mpsx::ops::explicit_ops
