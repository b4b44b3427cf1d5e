// The boxed kernel that runs an operator's CPU kernel on the memory of device tensors.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include "runtime/profile.h"

namespace mpsx::backend {

// The fallback proper: counted, and announced as fallback_mode says. Also for native kernels to call when they do not
// take what they were given (a dtype that Apple GPUs lack).
void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

// Runs `op` on the CPU under `cpu_key` with aliased arguments, adds calls and time to `route`. No announcement.
void run_on_cpu(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack,
                runtime::RouteEntry& route, bool timed);

}  // namespace mpsx::backend
