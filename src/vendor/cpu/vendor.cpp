#include "vendor/cpu/vendor.h"

#include <ATen/core/LegacyTypeDispatch.h>

#include <string>

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

// An operator as the dispatcher calls it.
class Kernel final : public c10::OperatorKernel {
 public:
  Kernel(RouteEntry& route, c10::KernelFunction ours, Library::Condition* small, CpuKernel* better)
      : route_(route), ours_(std::move(ours)), small_(small), better_(better) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) const {
    if (preferred() && !(small_ && small_(*stack)))
      backend::run_on_cpu(op, c10::DispatchKey::CPU, stack, route_, runtime::profiling, better_);
    else if (ours_.isValid())
      ours_.callBoxed(op, keys, stack);
    else
      backend::fallback(op, c10::DispatchKey::CPU, stack);
  }

 private:
  RouteEntry& route_;
  c10::KernelFunction ours_;
  Library::Condition* small_;
  CpuKernel* better_;  // asked before ATen's
};

}  // namespace

bool preferred() {
  static const bool preferred =
      backend::setting("MPSX_VENDOR", "on", "off").value_or(runtime::driver().info().name == "host");
  return preferred;
}

Library& Library::impl(const char* op, c10::KernelFunction kernel, Condition* small) {
  RouteEntry& route = route_of(std::string("aten::") + op, library_);
  m_.impl(op, torch::CppFunction::makeFromBoxedFunctor(
                  std::make_unique<Kernel>(route, std::move(kernel), small, onednn_matmul(op))));
  return *this;
}

Operator::Operator(const char* name, const char* library, const char* counted_as)
    : handle_(c10::Dispatcher::singleton().findSchemaOrThrow(name, "")), route_(route_of(counted_as, library)) {}

void Operator::run(torch::jit::Stack& stack) const {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  backend::run_on_cpu(handle_, c10::DispatchKey::CPU, &stack, route_, runtime::profiling);
}

}  // namespace mpsx::vendor
