// Output arguments of launchers. If an output is undefined, the launcher must allocate it. Otherwise, it is the tensor
// of an out= or in-place call. A launcher either writes to the tensor that allocate_or_resize() or prepare_output()
// provides, or passes its result to return_or_copy().
#pragma once

#include <ATen/core/Tensor.h>

namespace mpsx::ops {

using at::Tensor;

// Returns whether a launcher may write a result of this type to `out`.
inline bool accepts(const Tensor& out, at::ScalarType type) { return !out.defined() || out.scalar_type() == type; }

// For kernels that can write outputs with any strides. Allocates `out`, or resizes it and warns like PyTorch. A new or
// resized output is dense. It has the given strides or the memory format of `options`.
void allocate_or_resize(Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                        at::IntArrayRef strides = {});

// For kernels that can write outputs only with these strides. Returns a new tensor or the resized `out`. If `out` has
// different strides or a different dtype, or shares memory with `input`, returns a temporary tensor to pass to
// return_or_copy().
Tensor prepare_output(const Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                      at::IntArrayRef strides = {}, const Tensor& input = {});

// Returns `result` through `out`. If `out` is defined and is a different tensor, resizes it and copies with a cast,
// like PyTorch. Always returns true.
bool return_or_copy(const char* op, const Tensor& result, Tensor& out);

// Copies the result of an in-place operation, which must not change the shape of `self`.
void copy_in_place(const char* op, const Tensor& result, Tensor& self);

}  // namespace mpsx::ops
