// Runs the checks of a structured operator (at::meta) without PyTorch's code generation. Shapes, dtypes, strides and
// error messages are the same as for PyTorch's CPU kernels.
#pragma once

#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>

#include <array>

#include "backend/torch_version.h"
#include "ops/output.h"

namespace mpsx::ops {

// `Meta` is at::meta::structured_<op>. Kernels write to `result(i)`, which has the strides that the meta function
// requests. return_or_copy() returns it or, if an out= tensor has different strides, copies it.
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
  // Meta functions that inherit the checks of a different operator call this to read their outputs.
  const Tensor& maybe_get_output(int64_t i) override {
    return result_[size_t(i)].defined() ? result_[size_t(i)] : given_[size_t(i)];
  }

  const Tensor& result(size_t i = 0) const { return result_[i]; }
  // Returns the results through the output arguments of the launcher. Always returns true.
  template <typename... Outs>
  bool return_or_copy(Outs&... outs) const {
    static_assert(sizeof...(Outs) == N);
    size_t i = 0;
    return (ops::return_or_copy("out", result_[i++], outs) && ...);
  }

 private:
  void set(size_t i, at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    const Tensor& out = given_[i];
    TORCH_CHECK(!out.defined() || options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(),
                ", but got ", out.dtype(), " instead");
    TORCH_CHECK(!out.defined() || options.device().type() == out.device().type(), "Expected out tensor to have device ",
                options.device(), ", but got ", out.device(), " instead");
    result_[i] = prepare_output(out, sizes, options, strides);
  }

  std::array<Tensor, N> given_, result_;
};

}  // namespace mpsx::ops
