// For operators with a kernel of their own in place of what torch derives their gradient from.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

namespace mpsx::ops {

// Whether a gradient, or a tangent, goes through what is made of `t`.
inline bool is_differentiated(const at::Tensor& t) {
  return (at::GradMode::is_enabled() && t.requires_grad()) || t._fw_grad(0).defined();
}

// Whether torch.func transforms the call: kernels have no batching rule, and a wrapper has no memory.
inline bool is_transformed(const at::Tensor& t) {
  const c10::DispatchKeySet keys = t.key_set();
  return keys.has(c10::DispatchKey::FuncTorchBatched) || keys.has(c10::DispatchKey::FuncTorchGradWrapper);
}

}  // namespace mpsx::ops
