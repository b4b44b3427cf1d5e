#include "ops/operator.h"

#include <deque>
#include <unordered_map>
#include <vector>

namespace mpsx::ops {
namespace {

// Parses "name.overload".
c10::OperatorName aten_name(std::string_view name) {
  const size_t dot = std::min(name.find('.'), name.size());
  return {"aten::" + std::string(name.substr(0, dot)), std::string(dot < name.size() ? name.substr(dot + 1) : "")};
}

using Schemas = std::vector<const c10::FunctionSchema*>;

// Returns all aten schemas, grouped by name without the overload.
const std::unordered_map<std::string, Schemas>& aten_schemas() {
  static const auto all = [] {
    std::unordered_map<std::string, Schemas> schemas;
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames())
      if (name.name.starts_with("aten::"))
        if (const auto op = dispatcher.findSchema(name)) schemas[name.name].push_back(&op->schema());
    return schemas;
  }();
  return all;
}

bool composed_by_torch(const c10::FunctionSchema& schema) {
  const auto op = c10::Dispatcher::singleton().findSchema(schema.operator_name());
  return op && op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// Returns whether a form has the same arguments as `functional`, followed only by outputs.
bool is_form(const c10::FunctionSchema& form, const c10::FunctionSchema& functional, size_t results) {
  const auto &ours = form.arguments(), &theirs = functional.arguments();
  if (ours.size() != theirs.size() + results) return false;
  for (size_t i = 0; i < theirs.size(); ++i)
    if (ours[i].name() != theirs[i].name() || *ours[i].type() != *theirs[i].type()) return false;
  return std::all_of(ours.begin() + std::ptrdiff_t(theirs.size()), ours.end(),
                     [](const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); });
}

bool writes(const c10::FunctionSchema& schema) {
  return !schema.arguments().empty() && schema.arguments()[0].alias_info() &&
         schema.arguments()[0].alias_info()->isWrite();
}

std::string name_in_library(const c10::FunctionSchema& schema) {
  const std::string name = schema.name().substr(sizeof("aten::") - 1);
  return schema.overload_name().empty() ? name : name + "." + schema.overload_name();
}

}  // namespace

const OperatorForms& OperatorForms::of(const char* name) {
  static auto& all = *new std::deque<OperatorForms>;
  const c10::OperatorName whole = aten_name(name);
  const std::string& base = whole.name;
  const auto found = c10::Dispatcher::singleton().findSchema(whole);
  TORCH_INTERNAL_ASSERT(found, "torch has no operator aten::", name);
  const c10::FunctionSchema& schema = found->schema();
  const auto name_of = [&](const std::string& family, size_t results) -> std::string {
    const auto schemas = aten_schemas().find(family);
    if (schemas == aten_schemas().end()) return "";
    for (const c10::FunctionSchema* form : schemas->second)
      if (is_form(*form, schema, results) && (results > 0 || writes(*form)) && !composed_by_torch(*form))
        return name_in_library(*form);
    return "";
  };
  return all.emplace_back(OperatorForms{name, name_in_library(schema), name_of(base + "_", 0),
                                        name_of(base, schema.returns().size()), composed_by_torch(schema)});
}

void run_fallback(std::string_view name, torch::jit::Stack& stack) {
  const c10::OperatorName whole = aten_name(name);
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(whole.name.c_str(), whole.overload_name.c_str());
  backend::fallback(op, c10::DispatchKey::CPU, &stack);
}

namespace detail {

void rethrow(const driver::Error& e, const char* op) { throw driver::Error(std::string(op) + ": " + e.what()); }

void register_kernel(const char* name, c10::KernelFunction kernel, c10::impl::CppSignature signature) {
  static auto& kept = *new std::vector<c10::RegistrationHandleRAII>;
  kept.push_back(c10::Dispatcher::singleton().registerImpl(
      aten_name(name), c10::DispatchKey::PrivateUse1, std::move(kernel), signature, nullptr, "registered by mpsx"));
}

}  // namespace detail

}  // namespace mpsx::ops
