// The boxed kernel that runs an operator's CPU kernel on the memory of device tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "runtime/profile.h"

namespace mpsx::backend {

// The fallback proper, into the kernel of `cpu_key` (CPU, SparseCPU, …): counted, and announced as fallback_mode says.
// Also for launchers to call when they do not take what they were given (a dtype that Apple GPUs lack).
void fallback(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack);

// Takes a call whose arguments are CPU tensors: replaces them on the stack by the result, or returns false and leaves
// them for torch's own kernel.
using CpuKernel = bool(torch::jit::Stack& stack);

// Runs `op` on the CPU under `cpu_key` with aliased arguments, adds calls and time to `route`. No announcement.
// `better` is asked before torch's kernel.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack,
                runtime::RouteEntry& route, bool timed, CpuKernel* better = nullptr);

}  // namespace mpsx::backend
