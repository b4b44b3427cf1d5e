// The boxed fallback, which runs an operator's CPU kernel on the memory of device tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "runtime/profile.h"

namespace mpsx::backend {

// Runs the operator's kernel for `cpu_key` (CPU, SparseCPU, …). Counts the call, and warns or throws depending on
// fallback_mode. Launchers also call this for unsupported arguments, for example a dtype that Apple GPUs lack.
void fallback(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack);

// A CPU kernel to try before PyTorch's own. It replaces the arguments on the stack with the result. If it does not
// support the arguments, it leaves them unchanged and returns false.
using CpuKernel = bool(torch::jit::Stack& stack);

// Runs `op` on the CPU under `cpu_key` with aliased arguments and without a warning. Adds the call and its time to
// `route`. If `preferred_kernel` is given, tries it before PyTorch's kernel.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack,
                runtime::RouteEntry& route, bool timed, CpuKernel* preferred_kernel = nullptr);

}  // namespace mpsx::backend
