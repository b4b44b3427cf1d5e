// frexp: two results of one number, each of a kernel.
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {
namespace {

using Two = std::tuple<Tensor, Tensor>;

Tensor part(const ElementwiseKernels& kernels, const Tensor& self, at::ScalarType type) {
  const Tensor none;  // allocated by the iterator
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(none)
                                .add_const_input(self)
                                .check_all_same_dtype(false)
                                .declare_static_dtype(type)
                                .build();
  kernels.run(iter, tag_of(self), ScalarParams{});
  return iter.output();
}
Two frexp(const Tensor& self) {
  static const ElementwiseKernels mantissa("frexp", 1), exponent("frexp_exponent", 1);
  if (!has_float_kernel(self)) return fallback_call<Two>("aten::frexp", "Tensor", self);
  return {part(mantissa, self, self.scalar_type()), part(exponent, self, at::kInt)};
}
std::tuple<Tensor&, Tensor&> frexp_out(const Tensor& self, Tensor& mantissa, Tensor& exponent) {
  if (!has_float_kernel(self) || !is_plain(mantissa) || !is_plain(exponent) ||
      mantissa.scalar_type() != self.scalar_type() || exponent.scalar_type() != at::kInt) {
    fallback_call<Two>("aten::frexp", "Tensor_out", self, mantissa, exponent);
    return {mantissa, exponent};
  }
  const auto [m, e] = ops::frexp(self);
  at::native::resize_output(mantissa, m.sizes());
  at::native::resize_output(exponent, e.sizes());
  mantissa.copy_(m);
  exponent.copy_(e);
  return {mantissa, exponent};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("frexp.Tensor", &frexp);
  m.impl("frexp.Tensor_out", &frexp_out);
}

}  // namespace mpsx::ops
