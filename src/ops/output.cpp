#include "ops/output.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include "ops/op.h"

namespace mpsx::ops {
namespace {

Tensor allocate(at::IntArrayRef sizes, const at::TensorOptions& options, at::IntArrayRef strides) {
  return strides.empty() ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options);
}

void resize(const Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options, at::IntArrayRef strides) {
  if (!at::native::resize_output(out, sizes)) return;
  if (!strides.empty())
    out.as_strided_(sizes, strides);
  else if (options.memory_format_opt())
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
}

void check_cast(const char* op, const Tensor& result, const Tensor& out) {
  TORCH_CHECK(c10::canCast(result.scalar_type(), out.scalar_type()), op, ": result type ", result.scalar_type(),
              " can't be cast to the desired output type ", out.scalar_type());
}

}  // namespace

void allocate_or_resize(Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options, at::IntArrayRef strides) {
  if (!out.defined()) {
    out = allocate(sizes, options, strides);
    return;
  }
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
              out.dtype(), " instead");
  resize(out, sizes, options, strides);
}

Tensor prepare_output(const Tensor& out, at::IntArrayRef sizes, const at::TensorOptions& options,
                      at::IntArrayRef strides, const Tensor& input) {
  if (!out.defined()) return allocate(sizes, options, strides);
  resize(out, sizes, options, strides);
  const auto format = options.memory_format_opt().value_or(at::MemoryFormat::Contiguous);
  const bool has_strides = strides.empty() ? out.is_contiguous(format) : out.strides() == strides;
  const bool is_direct = has_strides && is_plain(out) && out.dtype() == options.dtype() &&
                         !(input.defined() && out.is_alias_of(input));
  return is_direct ? out : allocate(sizes, options, strides);
}

bool return_or_copy(const char* op, const Tensor& result, Tensor& out) {
  if (!out.defined()) {
    out = result;
  } else if (!out.is_same(result)) {
    check_cast(op, result, out);
    TORCH_CHECK(out.device() == result.device(), op, ": expected out on ", result.device(), ", got ", out.device());
    // Like at::TensorIterator, give a resized output the strides of the result.
    if (at::native::resize_output(out, result.sizes()) && result.is_non_overlapping_and_dense())
      out.as_strided_(result.sizes(), result.strides());
    out.copy_(result);
  }
  return true;
}

void copy_in_place(const char* op, const Tensor& result, Tensor& self) {
  check_cast(op, result, self);
  TORCH_CHECK(self.sizes() == result.sizes(), "output with shape ", self.sizes(), " doesn't match the broadcast shape ",
              result.sizes());
  self.copy_(result);
}

}  // namespace mpsx::ops
