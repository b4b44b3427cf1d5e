// frexp, with one kernel for each output.
#include <torch/library.h>

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {
namespace {

void part(const ElementwiseKernels& kernels, const Tensor& self, at::ScalarType type, Tensor& out) {
  at::TensorIterator iter = at::TensorIteratorConfig()
                                .add_output(out)
                                .add_const_input(self)
                                .check_all_same_dtype(false)
                                .declare_static_dtype(type)
                                .build();
  kernels.run(iter, tag_of(self), ScalarParams{});
  if (!out.defined()) out = iter.output();
}
bool frexp(const Tensor& self, Tensor& mantissa, Tensor& exponent) {
  static const ElementwiseKernels mantissas("frexp", 1), exponents("frexp_exponent", 1);
  TORCH_CHECK(accepts(exponent, at::kInt), "torch.frexp() expects exponent to have int dtype but got ",
              exponent.scalar_type());
  TORCH_CHECK(accepts(mantissa, self.scalar_type()), "torch.frexp() expects mantissa to have dtype ",
              self.scalar_type(), " but got ", mantissa.scalar_type());
  if (!has_float_kernel(self)) return false;
  part(exponents, self, at::kInt, exponent);  // this comes first, because the mantissa may overwrite self
  part(mantissas, self, self.scalar_type(), mantissa);
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"frexp.Tensor", &frexp>(m); }

}  // namespace mpsx::ops
