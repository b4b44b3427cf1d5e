// The boxed fallback, which runs an operator's CPU kernel on the memory of device tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "runtime/profile.h"

namespace mpsx::backend {

// Falls back to the kernel of `cpu_key` (CPU, SparseCPU, …), counts the call, and warns or throws depending on
// fallback_mode. Launchers also call it for arguments that they do not support (a dtype that Apple GPUs lack).
void fallback(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack);

// A kernel for calls whose arguments are CPU tensors. Replaces the arguments on the stack by the result, or returns
// false and leaves them for torch's own kernel.
using CpuKernel = bool(torch::jit::Stack& stack);

// Runs `op` on the CPU under `cpu_key` with aliased arguments, without a warning, and adds calls and time to `route`.
// `preferred_kernel`, if given, is tried before torch's kernel.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack,
                runtime::RouteEntry& route, bool timed, CpuKernel* preferred_kernel = nullptr);

}  // namespace mpsx::backend
