#include "backend/copy.h"

#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/native/Copy.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/copy_native.h>
#include <torch/library.h>

#include "backend/alias.h"
#include "backend/device.h"
#include "runtime/stream.h"

namespace mpsx::backend {

std::atomic<NativeCopy> native_copy{nullptr};

namespace {

bool on_device(const at::Tensor& to, const at::Tensor& from) {
  const auto native = native_copy.load(std::memory_order_relaxed);
  if (!native || !is_mpsx(to.device()) || !is_mpsx(from.device())) return false;
  if (to.is_conj() != from.is_conj() || to.is_neg() != from.is_neg()) return false;
  // Not by `?:`, which copies `from`: a second reference to a tensor of Python's waits for its interpreter lock.
  if (to.sizes() == from.sizes()) return native(to, from);
  return native(to, from.expand(to.sizes()));
}

// Not only _copy_from: core's copy_ resolves conj bits by cloning, which would come back here for ever.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  // Zeros without memory, which forward-mode derivatives are full of.
  TORCH_CHECK(!self._is_zerotensor(), "copy_: ZeroTensors are immutable; use clone() to have a tensor of zeros");
  if (source._is_zerotensor()) return self.zero_();
  if (self.is_same(source) || on_device(self, source)) return self;
  CpuAliases aliases;
  at::Tensor to = aliases.cpu(self), from = aliases.cpu(source);
  at::native::copy_(to, from, non_blocking);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  at::Tensor target = to;
  copy_(target, self, non_blocking);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, /*non_blocking=*/false);
}

// Read where it lies: a training loop asks for its loss in every step.
at::Scalar local_scalar(const at::Tensor& self) {
  if (!self.has_storage() || self.is_conj() || self.is_neg() || self._is_zerotensor()) {
    CpuAliases aliases;
    return at::_local_scalar_dense(aliases.cpu(self));
  }
  const void* data = self.const_data_ptr();
  runtime::prepare_cpu_access(data);
  at::Scalar value;
  AT_DISPATCH_V2(self.scalar_type(), "_local_scalar_dense",
                 AT_WRAP([&] { value = at::Scalar(*static_cast<const scalar_t*>(data)); }),
                 AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_FLOAT8_TYPES),
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16);
  return value;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar);
}

}  // namespace
}  // namespace mpsx::backend
