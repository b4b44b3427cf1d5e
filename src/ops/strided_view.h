// Views for launchers, without the dispatcher.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided_native.h>

namespace mpsx::ops {

// Returns a view that starts at the first element of `t`. View operators take as much CPU time as a launch, so
// launchers call this instead of several of them.
inline at::Tensor strided_view(const at::Tensor& t, at::IntArrayRef sizes, at::IntArrayRef strides) {
  return at::native::as_strided_tensorimpl(t, sizes, strides, t.storage_offset());
}

}  // namespace mpsx::ops
