#include "ops/explicit.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <memory>

#include "backend/alias.h"
#include "backend/mps_interop.h"
#include "ops/op.h"
#include "runtime/stream.h"

namespace mpsx::ops::explicit_ops {
namespace {

using c10::DispatchKey;
constexpr c10::DispatchKeySet kDevice(DispatchKey::PrivateUse1);

template <typename Visit>
void for_each_tensor(const IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    if (const Tensor& t = value.toTensor(); t.defined()) visit(t);
  } else if (value.isTensorList()) {
    for (const Tensor& t : value.toTensorVector()) visit(t);
  }
}

std::string describe(const Tensor& t) {
  const std::string device = c10::DeviceTypeName(t.device().type(), /*lower_case=*/true);
  return t.layout() == at::kStrided ? device : c10::str(t.layout(), " on ", device);
}

bool is_served(const Tensor& t) {
  return t.layout() == at::kStrided &&
         (t.device().is_privateuseone() || t.device().is_cpu() || t.device().is_mps() || t.device().is_meta());
}

void check_types(const std::string& op, Accepts accepts, c10::ArrayRef<IValue> arguments) {
  bool first = true;
  for (const IValue& value : arguments)
    for_each_tensor(value, [&](const Tensor& t) {
      const Tag tag = tag_of(t);
      const bool floating = accepts == Accepts::FLOATS && first;
      first = false;
      if (floating ? is_float_tag(tag) : tag != Tag::none && tag != Tag::c64) return;
      TORCH_CHECK(false, op, ": expected float32, float16",
                  floating ? " or bfloat16" : ", bfloat16, an integer type or bool", ", got ", t.scalar_type());
    });
}

void check(const c10::OperatorHandle& op, Accepts accepts, const Stack& stack) {
  const auto arguments = torch::jit::last(stack, op.schema().arguments().size());
  check_devices(op.schema().name(), arguments);
  check_types(op.schema().name(), accepts, arguments);
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::TypePtr type = op.schema().arguments()[i].real_type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() != c10::TypeKind::ScalarTypeType || !arguments[i].isInt()) continue;
    const int64_t value = arguments[i].toInt();
    TORCH_CHECK(value >= 0 && value < int64_t(at::ScalarType::Undefined), op.schema().name(), ": expected a dtype for ",
                op.schema().arguments()[i].name(), ", got ", value);
  }
}

// The kernel for this device and for Meta. It checks the arguments and then calls the operator.
class Checked final : public c10::OperatorKernel {
 public:
  Checked(Accepts accepts, c10::KernelFunction kernel) : accepts_(accepts), kernel_(std::move(kernel)) {}
  Checked(Accepts accepts, c10::OperatorHandle target) : accepts_(accepts), target_(target) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    check(op, accepts_, *stack);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    if (target_)
      target_->callBoxed(stack);
    else
      kernel_.callBoxed(op, keys, stack);
  }

 private:
  Accepts accepts_;
  c10::KernelFunction kernel_;
  std::optional<c10::OperatorHandle> target_;
};

// Replaces every tensor t in a value or in a list of tensors with change(t).
template <typename Change>
void change_tensors(IValue& value, const Change& change) {
  if (value.isTensor()) {
    if (const Tensor& t = value.toTensor(); t.defined()) value = change(t);
  } else if (value.isTensorList()) {
    const auto list = value.toTensorList();
    c10::List<Tensor> changed;
    changed.reserve(list.size());
    for (const Tensor& t : list) changed.push_back(change(t));
    value = std::move(changed);
  }
}

// Copies written views back to the original arguments. Needed on drivers that cannot address process memory, because
// the views are copies there.
void write_back(const c10::FunctionSchema& schema, const std::vector<IValue>& originals,
                const std::vector<IValue>& views, backend::CpuAliases& aliases) {
  for (size_t i = 0; i < originals.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (!alias || !alias->isWrite()) continue;
    std::vector<Tensor> to, from;
    for_each_tensor(originals[i], [&](const Tensor& t) { to.push_back(t); });
    for_each_tensor(views[i], [&](const Tensor& t) { from.push_back(aliases.cpu(t)); });
    for (size_t k = 0; k < to.size(); ++k) to[k].copy_(from[k]);
  }
}

// The CPU kernel of every explicit operator. It runs the mpsx kernel on mpsx views of the arguments.
void run_on_views(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size(), first = stack->size() - count;
  check_devices(schema.name(), torch::jit::last(*stack, count));
  const bool copies = schema.is_mutable() && !runtime::driver().traits().uses_process_memory();
  std::vector<IValue> originals, views;
  if (copies) originals.assign(stack->begin() + int64_t(first), stack->end());
  backend::CpuAliases aliases;
  for (size_t i = first; i < stack->size(); ++i)
    change_tensors((*stack)[i], [&](const Tensor& t) { return aliases.device(t); });
  if (copies) views.assign(stack->begin() + int64_t(first), stack->end());

  op.redispatchBoxed(kDevice, stack);

  if (copies) write_back(schema, originals, views, aliases);
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    IValue& value = (*stack)[i];
    if (value.isTensor() && value.toTensor().defined()) value = aliases.cpu(value.toTensor());
  }
}

// The kernel for tensors on PyTorch's mps device. It runs the mpsx kernel on mpsx tensors over the same memory.
void run_on_mps(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto& schema = op.schema();
  const size_t count = schema.arguments().size(), first = stack->size() - count;
  check_devices(schema.name(), torch::jit::last(*stack, count));
  backend::MpsArguments arguments;
  for (size_t i = first; i < stack->size(); ++i)
    change_tensors((*stack)[i], [&](const Tensor& t) { return arguments.from_mps(t); });
  op.redispatchBoxed(kDevice, stack);
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i)
    change_tensors((*stack)[i], [&](const Tensor& t) { return arguments.to_mps(t); });
}

// The kernel for all other backends. It throws an error that lists the supported devices.
void reject(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  check_devices(op.schema().name(), torch::jit::last(*stack, op.schema().arguments().size()));
  TORCH_CHECK(false, op.schema().name(), ": expected tensors on mpsx, mps or cpu");
}

c10::OperatorHandle aten_op(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow((std::string("aten::") + name).c_str(), overload);
}

using torch::CppFunction;

template <typename Operator>
CppFunction checked(Accepts accepts, Operator op) {
  return CppFunction::makeFromBoxedFunctor(std::make_unique<Checked>(accepts, std::move(op)));
}

void add_kernels(torch::Library& m, const char* name, bool writes, CppFunction device, CppFunction meta) {
  m.impl(name, torch::dispatch(DispatchKey::PrivateUse1, std::move(device)));
  m.impl(name, torch::dispatch(DispatchKey::CPU, CppFunction::makeFromBoxedFunction<&run_on_views>()));
  m.impl(name, torch::dispatch(DispatchKey::MPS, CppFunction::makeFromBoxedFunction<&run_on_mps>()));
  m.impl(name, torch::dispatch(DispatchKey::Meta, std::move(meta)));
  m.impl(name, torch::dispatch(DispatchKey::CompositeExplicitAutograd, CppFunction::makeFromBoxedFunction<&reject>()));
  if (writes) add_in_place_autograd(m, name);
}

}  // namespace

void check_devices(const std::string& op, c10::ArrayRef<IValue> arguments) {
  Tensor first;
  for (const IValue& value : arguments)
    for_each_tensor(value, [&](const Tensor& t) {
      if (!first.defined()) first = t;
      if (is_served(t) && t.device() == first.device()) return;
      TORCH_CHECK(false, op, ": expected all tensors on mpsx or all on cpu, got ", describe(first),
                  t.is_same(first) ? "" : " and " + describe(t));
    });
}

bool exists_in_aten(const Mirror& mirror) {
  return c10::Dispatcher::singleton().findSchema({std::string("aten::") + mirror.target, mirror.overload}).has_value();
}

void mirror_aten(torch::Library& m, const Mirror& mirror) {
  const auto target = aten_op(mirror.target, mirror.overload);
  const auto& schema = target.schema();
  std::vector<c10::Argument> arguments = schema.arguments();
  if (arguments[0].name() == "self") {
    const auto& a = arguments[0];
    const bool list = a.type()->kind() == c10::TypeKind::ListType;
    arguments[0] = c10::Argument(list ? "params" : "input", a.type(), a.real_type(), a.N(), a.default_value(),
                                 a.kwarg_only(), a.alias_info() ? std::optional(*a.alias_info()) : std::nullopt);
  }
  std::string name = std::string("mpsx::") + mirror.name;
  const std::string full = *mirror.own_overload ? name + "." + mirror.own_overload : name;
  std::vector<at::Tag> tags{at::Tag::pt2_compliant_tag};
  if (target.hasTag(at::Tag::pointwise)) tags.push_back(at::Tag::pointwise);
  m.def(schema.cloneWithArguments(std::move(arguments)).cloneWithName(std::move(name), mirror.own_overload),
        std::as_const(tags));
  const auto meta = mirror.meta ? aten_op(mirror.meta, "") : target;
  add_kernels(m, full.c_str(), schema.is_mutable(), checked(mirror.accepts, target), checked(mirror.accepts, meta));
}

void define_op(torch::Library& m, const char* text, Accepts accepts, c10::KernelFunction device,
               c10::KernelFunction meta) {
  c10::FunctionSchema schema = torch::schema(text);
  const std::string name = schema.name();
  m.def(std::move(schema), {at::Tag::pt2_compliant_tag});
  add_kernels(m, name.c_str(), false, checked(accepts, std::move(device)), checked(accepts, std::move(meta)));
}

c10::OperatorHandle find_op(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string overload = dot == std::string::npos ? "" : name.substr(dot + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(("mpsx::" + name.substr(0, dot)).c_str(), overload.c_str());
}

}  // namespace mpsx::ops::explicit_ops
