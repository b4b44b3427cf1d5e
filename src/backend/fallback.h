// The boxed fallback runs an operator's CPU kernel on the memory of device tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "runtime/profile.h"

namespace mpsx::backend {

// Falls back to the operator's kernel for `cpu_key` (CPU, SparseCPU, …). Counts the call, and warns or throws depending
// on fallback_mode. Launchers also call it for unsupported arguments, such as a dtype that Apple GPUs lack.
void fallback(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack);

// A CPU kernel to try before torch's own. It replaces the arguments on the stack with the result. To decline a call, it
// returns false and leaves the arguments unchanged.
using CpuKernel = bool(torch::jit::Stack& stack);

// Runs `op` on the CPU under `cpu_key` with aliased arguments and without a warning. Adds the call and its time to
// `route`. If `preferred_kernel` is given, tries it before torch's kernel.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack,
                runtime::RouteEntry& route, bool timed, CpuKernel* preferred_kernel = nullptr);

}  // namespace mpsx::backend
