#include "backend/fallback.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "backend/alias.h"
#include "backend/cpu_allocator_guard.h"
#include "backend/device.h"
#include "backend/fallback_policy.h"
#include "backend/generator.h"
#include "backend/operator_info.h"
#include "backend/register.h"
#include "runtime/launch_plan.h"
#include "runtime/launch_recording.h"
#include "runtime/trace.h"

namespace mpsx::backend {
namespace {

using torch::jit::IValue;
using torch::jit::Stack;

// Replaces the mpsx tensors, devices and generators on the stack with their CPU counterparts.
struct Arguments {
  CpuAliases aliases;
  std::optional<c10::Device> device;  // the device argument of a factory function
  std::optional<c10::Device> other_generator_device;

  void to_cpu(IValue& value, OperatorInfo::Argument facts) {
    if (value.isTensor()) {
      value = aliases.cpu(std::move(value).toTensor(), facts.written);
    } else if (value.isNone()) {
      if (facts.optional_generator) value = cpu_generator(default_generator());
    } else if (value.isTensorList()) {
      const auto list = value.toTensorList();
      c10::List<at::Tensor> out;
      out.reserve(list.size());
      for (const at::Tensor& t : list) out.push_back(aliases.cpu(t, facts.written));
      value = std::move(out);
    } else if (value.isOptionalTensorList()) {
      const auto list = value.toOptionalTensorList();
      c10::List<std::optional<at::Tensor>> out;
      out.reserve(list.size());
      for (const std::optional<at::Tensor>& t : list)
        out.push_back(t && t->defined() ? std::optional(aliases.cpu(*t, facts.written)) : t);
      value = std::move(out);
    } else if (value.isDevice()) {
      device = value.toDevice();
      if (is_mpsx(*device)) value = c10::Device(c10::kCPU);
    } else if (value.isGenerator()) {
      auto generator = value.toGenerator();
      if (!generator.defined()) return;
      if (is_mpsx(generator.device())) {
        value = cpu_generator(generator);
      } else {
        other_generator_device = generator.device();
      }
    }
  }

  void to_device(IValue& value) {
    if (value.isTensor()) {
      value = aliases.device(value.toTensor());
    } else if (value.isTensorList()) {
      const auto list = value.toTensorList();
      c10::List<at::Tensor> out;
      out.reserve(list.size());
      for (const at::Tensor& t : list) out.push_back(aliases.device(t));
      value = std::move(out);
    }
  }

  // If there is a device argument, it determines the device of the results. Otherwise, the tensor arguments determine
  // it.
  bool results_on_device() const { return device ? is_mpsx(*device) : aliases.has_device_tensor(); }
};

void check_devices(const OperatorInfo& facts, const Arguments& arguments) {
  TORCH_CHECK(!arguments.other_generator_device || !arguments.results_on_device(), facts.name,
              ": expected an mpsx generator, got one for ", *arguments.other_generator_device);
  if (!facts.accepts_mixed_devices) arguments.aliases.check_same_device(facts.name);
}

// Warns about the fallback, or rejects it, depending on fallback_mode.
void apply_policy(const c10::OperatorHandle& op, OperatorInfo& facts, c10::DispatchKey cpu_key) {
  TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(cpu_key), facts.name,
                              ": no kernel for mpsx, and none for ", cpu_key, " to fall back to");
  const auto mode = fallback_mode.load(std::memory_order_relaxed);
  if (mode == FallbackMode::error) reject_fallback(facts.name);
  if (mode == FallbackMode::warn && !facts.warned.exchange(true)) warn_fallback(facts.name);
}

// In a plan, logs the route and throws.
void reject_plan(const runtime::RouteEntry& route) {
  if (runtime::active_plan && runtime::logging.load(std::memory_order_relaxed))
    runtime::log_launch(route.route, route.name);
  runtime::reject_plan("a computation on the CPU, ", route.name.c_str());
}

uint64_t nanoseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count();
}

void run(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, Stack* stack, OperatorInfo& facts,
         runtime::RouteEntry& route, bool timed, CpuKernel* preferred_kernel = nullptr) {
  const auto start = timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  runtime::reject_recording(route.route == runtime::Route::vendor ? "the CPU library's " : "the CPU fallback of ",
                            route.name.c_str());
  Arguments arguments;
  const size_t first = stack->size() - facts.arguments.size();
  for (size_t i = 0; i < facts.arguments.size(); ++i) arguments.to_cpu((*stack)[first + i], facts.arguments[i]);
  check_devices(facts, arguments);

  {
    const runtime::TraceScope traced(route.name);
    CpuAllocatorGuard memory;
    if (!preferred_kernel || !preferred_kernel(*stack)) op.redispatchBoxed(c10::DispatchKeySet(cpu_key), stack);
  }

  if (facts.writes) arguments.aliases.write_back();
  if (arguments.results_on_device()) {
    const size_t results = op.schema().returns().size();
    for (size_t i = stack->size() - results; i < stack->size(); ++i) arguments.to_device((*stack)[i]);
  }
  route.calls.fetch_add(1, std::memory_order_relaxed);
  if (timed) route.nanoseconds.fetch_add(nanoseconds_since(start), std::memory_order_relaxed);
  if (&route == facts.fallback) facts.bytes.fetch_add(arguments.aliases.bytes(), std::memory_order_relaxed);
  if (C10_UNLIKELY(runtime::logging.load(std::memory_order_relaxed))) runtime::log_launch(route.route, route.name);
}

// Calls the operator again with lazily conjugated and negated arguments resolved. Returns false if it has no such
// arguments or handles them itself. PyTorch resolves them before it calls a kernel, except inside a TorchDispatchMode,
// which excludes the keys that do so from calls made by composite kernels such as linalg_pinv. The first call of a
// compiled function runs inside such a mode.
bool call_with_resolved_arguments(const c10::OperatorHandle& op, Stack* stack) {
  const auto& arguments = op.schema().arguments();
  c10::DispatchKeySet keys;
  for (const IValue& value : torch::jit::last(*stack, arguments.size())) {
    if (value.isTensor()) {
      keys = keys | value.toTensor().key_set();
    } else if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorList()) keys = keys | t.key_set();
    }
  }
  c10::DispatchKeySet resolving;
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative})
    if (keys.has(key) && !op.hasKernelForDispatchKey(key)) resolving = resolving.add(key);
  const auto is_view = [](const c10::Argument& a) { return a.alias_info() && !a.alias_info()->isWrite(); };
  if (resolving.empty() || std::any_of(arguments.begin(), arguments.end(), is_view)) return false;
  op.redispatchBoxed(resolving.add(c10::DispatchKey::PrivateUse1), stack);
  return true;
}

template <c10::DispatchKey cpu_key>
void kernel(const c10::OperatorHandle& op, Stack* stack) {
  fallback(op, cpu_key, stack);
}

using Handles = std::vector<c10::RegistrationHandleRAII>;

Handles& handles() {
  static auto* h = new Handles();
  return *h;
}

// Operators that have no CPU kernel, or only an out= kernel, but must use the fallback and not their composite kernel.
constexpr std::string_view kNotComposite[] = {
    "aten::mode.values",  // its composite kernel rejects unknown devices
    // The composite kernels of these operators access the memory of their arguments directly.
    "aten::_grid_sampler_2d_cpu_fallback",
    "aten::_grid_sampler_2d_cpu_fallback_backward",
    "aten::_reshape_from_tensor",
    "aten::_rowwise_prune",
    "aten::_saturate_weight_to_fp16",
    "aten::_sobol_engine_draw",
    "aten::_sobol_engine_ff_",
    "aten::_sobol_engine_initialize_state_",
    "aten::_sobol_engine_scramble_",
    "aten::choose_qparams_optimized",
    "aten::fbgemm_linear_fp16_weight",
    "aten::fbgemm_linear_fp16_weight_fp32_activation",
    "aten::fbgemm_linear_int8_weight",
    "aten::fbgemm_linear_int8_weight_fp32_activation",
    "aten::fbgemm_linear_quantize_weight",
    "aten::fbgemm_pack_gemm_matrix_fp16",
    "aten::fbgemm_pack_quantized_matrix",
    "aten::fbgemm_pack_quantized_matrix.KN",
    // The composite kernels of these operators resize their result and warn about it.
    "aten::mse_loss",
    "aten::smooth_l1_loss",
};

template <c10::DispatchKey device_key, c10::DispatchKey cpu_key>
void register_operator(c10::Dispatcher& dispatcher, const c10::OperatorName& name) {
  handles().push_back(dispatcher.registerImpl(
      name, device_key, c10::KernelFunction::makeFromBoxedFunction<&kernel<cpu_key>>(), std::nullopt, nullptr, "mpsx"));
}

// Registers the fallback under a dispatch key. Also registers it for every operator whose composite kernel would run
// although the CPU has a kernel for this layout (native_layer_norm, silu_backward, all sparse operators …).
template <c10::DispatchKey device_key, c10::DispatchKey cpu_key>
void register_key(bool composites_only) {
  auto& dispatcher = c10::Dispatcher::singleton();
  handles().push_back(
      dispatcher.registerFallback(device_key, c10::KernelFunction::makeFromBoxedFunction<&kernel<cpu_key>>(), "mpsx"));
  for (auto& name : dispatcher.getRegistrationsForDispatchKey(cpu_key)) {
    const auto op = dispatcher.findOp(name);
    if (!op || op->hasKernelForDispatchKey(device_key)) continue;
    if (composites_only && !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) &&
        !op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))
      continue;
    register_operator<device_key, cpu_key>(dispatcher, name);
  }
}

}  // namespace

void fallback(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, Stack* stack) {
  if (cpu_key == c10::DispatchKey::CPU && call_with_resolved_arguments(op, stack)) return;
  auto& facts = operator_info(op);
  reject_plan(*facts.fallback);
  if (C10_UNLIKELY(fallback_mode.load(std::memory_order_relaxed) == FallbackMode::error ||
                   !facts.warned.load(std::memory_order_relaxed)))
    apply_policy(op, facts, cpu_key);
  run(op, cpu_key, stack, facts, *facts.fallback, /*timed=*/true);
}

void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, Stack* stack, runtime::RouteEntry& route,
                bool timed, CpuKernel* preferred_kernel) {
  if (cpu_key == c10::DispatchKey::CPU && call_with_resolved_arguments(op, stack)) return;
  // In a new thread, MKL and oneDNN ignore torch.set_num_threads until ATen has read the setting in that thread.
  (void)at::get_num_threads();
  reject_plan(route);
  run(op, cpu_key, stack, operator_info(op), route, timed, preferred_kernel);
}

void register_fallback() {
  using c10::DispatchKey;
  handles().reserve(1024);
  register_key<DispatchKey::PrivateUse1, DispatchKey::CPU>(/*composites_only=*/true);
  auto& dispatcher = c10::Dispatcher::singleton();
  for (auto name : kNotComposite) {
    const auto dot = std::min(name.find('.'), name.size());
    const c10::OperatorName op{std::string(name.substr(0, dot)),
                               std::string(name.substr(std::min(dot + 1, name.size())))};
    const auto handle = dispatcher.findSchema(op);  // null if this PyTorch version lacks the operator
    if (handle && !handle->hasKernelForDispatchKey(DispatchKey::PrivateUse1))
      register_operator<DispatchKey::PrivateUse1, DispatchKey::CPU>(dispatcher, op);
  }
  register_key<DispatchKey::SparsePrivateUse1, DispatchKey::SparseCPU>(false);
  register_key<DispatchKey::SparseCsrPrivateUse1, DispatchKey::SparseCsrCPU>(false);
  register_key<DispatchKey::NestedTensorPrivateUse1, DispatchKey::NestedTensorCPU>(false);
  register_key<DispatchKey::QuantizedPrivateUse1, DispatchKey::QuantizedCPU>(false);
}

}  // namespace mpsx::backend
