// Operators on quantized tensors that PyTorch dispatches to the device and not to its quantized CPU kernels.
#include <ATen/ops/copy_native.h>
#include <torch/library.h>

#include "backend/alias.h"

namespace mpsx::backend {
namespace {

// Called by copy_ if either tensor is on this device. Gives `to` the quantizer of `self`.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  CpuAliases aliases;
  at::Tensor target = aliases.cpu(to, /*written=*/true);
  at::native::copy_(target, aliases.cpu(self), non_blocking);
  aliases.write_back();
  return to;
}

TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) { m.impl("_copy_from", copy_from); }

}  // namespace
}  // namespace mpsx::backend
