// Output arguments of launchers. An output is undefined if the launcher should allocate it. Otherwise the caller's out=
// or in-place form provides it. A launcher either writes to the tensor from allocate_or_resize() or prepare_output(),
// or passes its result to return_or_copy().
#pragma once

#include <ATen/core/Tensor.h>

namespace mpsx::ops {

using at::Tensor;

// Returns whether a launcher may write a result of this type into `out`.
inline bool accepts(const Tensor& out, at::ScalarType type) { return !out.defined() || out.scalar_type() == type; }

// For kernels that support any output strides: allocates `out`, or resizes it and warns like PyTorch. A new or resized
// output is dense, with the given strides or the memory format of `options`.
void allocate_or_resize(Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                        at::IntArrayRef strides = {});

// For kernels that support only these output strides: returns a new tensor or the resized `out`. If `out` has different
// strides or a different dtype, or shares memory with `input`, returns a temporary to pass to return_or_copy().
Tensor prepare_output(const Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                      at::IntArrayRef strides = {}, const Tensor& input = {});

// Returns `result` through `out`. If `out` is defined and is not `result`, resizes it and copies with a cast, like
// PyTorch. Always returns true.
bool return_or_copy(const char* op, const Tensor& result, Tensor& out);

// Copies the result of an in-place operation, which must not change the shape of `self`.
void copy_in_place(const char* op, const Tensor& result, Tensor& self);

}  // namespace mpsx::ops
