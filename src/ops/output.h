// Output arguments of launchers. An output is undefined if the launcher allocates it; otherwise an out= or in-place
// form provides it. A launcher either writes the tensor that allocate_or_resize() or prepare_output() gives it, or
// passes its result to return_or_copy().
#pragma once

#include <ATen/core/Tensor.h>

namespace mpsx::ops {

using at::Tensor;

// Whether a launcher may write a result of this type into `out`.
inline bool accepts(const Tensor& out, at::ScalarType type) { return !out.defined() || out.scalar_type() == type; }

// For kernels that write any strides: allocates `out`, or resizes it as PyTorch resizes outputs, with its warning. A
// new or resized output is dense, in the given strides or the memory format of `options`.
void allocate_or_resize(Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                        at::IntArrayRef strides = {});

// For kernels that write these strides only: returns a new tensor, `out` after resizing, or a temporary, to be passed
// to return_or_copy(), if `out` has other strides or another dtype, or shares memory with `input`.
Tensor prepare_output(const Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                      at::IntArrayRef strides = {}, const Tensor& input = {});

// Returns `result` through an undefined `out`, or copies it into `out` (unless it is `out`), resizing and casting as
// PyTorch does. Always returns true.
bool return_or_copy(const char* op, const Tensor& result, Tensor& out);

// Copies the result of an in-place form, whose tensor keeps its shape.
void copy_in_place(const char* op, const Tensor& result, Tensor& self);

}  // namespace mpsx::ops
