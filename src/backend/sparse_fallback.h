// The fallback for what sparse tensors have no operator of their own for.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

namespace mpsx::backend {

// As fallback() of backend/fallback.h, into the kernel of `cpu_key`: SparseCPU or SparseCsrCPU.
void sparse_fallback(const c10::OperatorHandle& op, c10::DispatchKey cpu_key, torch::jit::Stack* stack);

}  // namespace mpsx::backend
