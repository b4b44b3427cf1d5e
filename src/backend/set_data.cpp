// Allows `parameter.data = tensor` between the CPU and mpsx. Otherwise, `model.to("mpsx")` would create new parameters,
// which breaks tied weights and optimizers created before the move. PyTorch's own check
// (TensorImpl::has_compatible_shallow_copy_type) accepts only in-tree backends, but the operator can be overridden.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "backend/device.h"

namespace mpsx::backend {
namespace {

bool is_dense(const at::Tensor& tensor) {
  return (tensor.is_cpu() || is_mpsx(tensor.device())) &&
         tensor.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense));
}

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return self.key_set() == from.key_set() || (is_dense(self) && is_dense(from));
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}

}  // namespace mpsx::backend
