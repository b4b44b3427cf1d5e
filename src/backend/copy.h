// Copies between tensors, of which at least one is on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>

namespace mpsx::backend {

// Copies between two device tensors of the same size (any strides, any two dtypes) on the device. Set by
// src/ops/elementwise/copy.cpp; returning false declines, and the CPU copies. Neither tensor, or both, have their conj bit set;
// likewise neg.
using NativeCopy = bool (*)(const at::Tensor& to, const at::Tensor& from);
extern std::atomic<NativeCopy> native_copy;

}  // namespace mpsx::backend
