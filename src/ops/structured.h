// Runs a structured operator's own checks (at::meta) outside of PyTorch's code generation, with outputs made or fitted
// as PyTorch does: shapes, types, strides and messages are the CPU's.
#pragma once

#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include <array>

#include "backend/torch_version.h"
#include "ops/op.h"

namespace mpsx::ops {

// `Meta` is at::meta::structured_<op>. Kernels write `result(i)`, dense in the strides that the operator asks for;
// finish() brings it into an out= tensor that has others.
template <typename Meta, size_t N = 1>
class Structured final : public Meta {
 public:
  Structured() = default;
  template <typename... Outs>
  explicit Structured(const Tensor& first, const Outs&... rest) : given_{first, rest...} {}

  void set_output_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options MPSX_DIMNAMES) override {
    set(size_t(i), sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options MPSX_DIMNAMES) override {
    set(size_t(i), sizes, strides, options);
  }
  // For operators that share their checks with others and have outputs of their own.
  const Tensor& maybe_get_output(int64_t i) override {
    return result_[size_t(i)].defined() ? result_[size_t(i)] : given_[size_t(i)];
  }

  const Tensor& result(size_t i = 0) const { return result_[i]; }
  // Hands the results to a launcher's own parameters (ops/operator.h), whether they were given or not. Always true.
  template <typename... Outs>
  bool finish(Outs&... outs) const {
    static_assert(sizeof...(Outs) == N);
    size_t i = 0;
    ((outs.defined() ? void() : void(outs = result_[i]), ++i), ...);
    finish();
    return true;
  }
  void finish() const {
    for (size_t i = 0; i < N; ++i)
      if (given_[i].defined() && !given_[i].is_same(result_[i])) given_[i].copy_(result_[i]);
  }

 private:
  void set(size_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    const Tensor& out = given_[i];
    if (!out.defined()) {
      result_[i] = make(sizes, strides, options);
      return;
    }
    TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(), ", but got ",
                out.dtype(), " instead");
    TORCH_CHECK(options.device().type() == out.device().type(), "Expected out tensor to have device ", options.device(),
                ", but got ", out.device(), " instead");
    if (at::native::resize_output(out, sizes)) {
      if (!strides.empty()) {
        out.as_strided_(sizes, strides);
      } else if (options.memory_format_opt()) {
        out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
      }
    }
    const bool fits =
        is_plain(out) &&
        (strides.empty() ? out.is_contiguous(options.memory_format_opt().value_or(at::MemoryFormat::Contiguous))
                         : out.strides() == strides);
    result_[i] = fits ? out : make(sizes, strides, options);
  }
  static Tensor make(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    return strides.empty() ? at::empty(sizes, options) : at::empty_strided(sizes, strides, options);
  }

  std::array<Tensor, N> given_, result_;
};

}  // namespace mpsx::ops
