// Helpers for operators that run a single kernel where PyTorch would differentiate a composition of several operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

namespace mpsx::ops {

// Returns whether autograd or forward-mode AD records operations on `t`.
inline bool is_differentiated(const at::Tensor& t) {
  return (at::GradMode::is_enabled() && t.requires_grad()) || t._fw_grad(0).defined();
}

// Returns whether a torch.func transform wraps `t`. Kernels have no batching rules, and functorch wrappers have no
// memory.
inline bool is_transformed(const at::Tensor& t) {
  const c10::DispatchKeySet keys = t.key_set();
  return keys.has(c10::DispatchKey::FuncTorchBatched) || keys.has(c10::DispatchKey::FuncTorchGradWrapper);
}

}  // namespace mpsx::ops
