#include "vendor/cpu/vendor.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "backend/fallback.h"
#include "backend/setting.h"
#include "runtime/device.h"
#include "vendor/cpu/onednn_matmul.h"

namespace mpsx::vendor {
namespace {

using backend::CpuKernel;
using runtime::RouteEntry;

RouteEntry& route_of(const std::string& op, const char* library) {
  return runtime::route_entry(op, runtime::Route::vendor, library);
}

// The boxed kernel of an operator. It chooses between the library, our kernel and the fallback.
class Kernel final : public c10::OperatorKernel {
 public:
  Kernel(RouteEntry& route, c10::KernelFunction ours, Library::Condition* prefer_kernel, CpuKernel* onednn)
      : route_(route), ours_(std::move(ours)), prefer_kernel_(prefer_kernel), onednn_(onednn) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    if (preferred() && !(prefer_kernel_ && prefer_kernel_(*stack)))
      backend::run_on_cpu(op, c10::DispatchKey::CPU, stack, route_, runtime::profiling, onednn_);
    else if (ours_.isValid())
      ours_.callBoxed(op, keys, stack);
    else
      backend::fallback(op, c10::DispatchKey::CPU, stack);
  }

 private:
  RouteEntry& route_;
  c10::KernelFunction ours_;
  Library::Condition* prefer_kernel_;
  CpuKernel* onednn_;  // tried before ATen's kernel
};

// Predicts, without starting the driver, that preferred() will return false. This is wrong on a Mac without a Metal
// device, where our kernels then run on the host driver.
bool expects_our_kernels() {
  const char* env = std::getenv("MPSX_VENDOR");
  return env && *env ? std::string_view(env) == "off" : !runtime::expects_cpu_driver();
}

// Registers our kernel without the boxed choice, which costs more than its launch.
void register_kernel(const char* op, c10::KernelFunction kernel) {
  static auto& kept = *new std::vector<c10::RegistrationHandleRAII>;
  const std::string_view name(op);
  const size_t dot = std::min(name.find('.'), name.size());
  const c10::OperatorName full{"aten::" + std::string(name.substr(0, dot)),
                               std::string(name.substr(std::min(dot + 1, name.size())))};
  kept.push_back(c10::Dispatcher::singleton().registerImpl(full, c10::DispatchKey::PrivateUse1, std::move(kernel),
                                                           std::nullopt, nullptr, "registered by mpsx"));
}

}  // namespace

bool preferred() {
  static const bool preferred =
      backend::setting("MPSX_VENDOR", "on", "off").value_or(runtime::driver().info().name == "host");
  return preferred;
}

Library& Library::impl(const char* op, c10::KernelFunction kernel, Condition* prefer_kernel) {
  if (kernel.isValid() && expects_our_kernels()) {
    register_kernel(op, std::move(kernel));
    return *this;
  }
  RouteEntry& route = route_of(std::string("aten::") + op, library_);
  m_.impl(op, torch::CppFunction::makeFromBoxedFunctor(
                  std::make_unique<Kernel>(route, std::move(kernel), prefer_kernel, onednn_matmul(op))));
  return *this;
}

Operator::Operator(const char* name, const char* library, const char* counted_as)
    : handle_(c10::Dispatcher::singleton().findSchemaOrThrow(name, "")), route_(route_of(counted_as, library)) {}

void Operator::run(torch::jit::Stack& stack) const {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  backend::run_on_cpu(handle_, c10::DispatchKey::CPU, &stack, route_, runtime::profiling);
}

}  // namespace mpsx::vendor
