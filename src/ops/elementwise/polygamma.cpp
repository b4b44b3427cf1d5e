// polygamma, a unary function with an additional order argument, and the out= form of mvlgamma.
#include <ATen/ops/mvlgamma.h>
#include <torch/library.h>

#include "ops/elementwise/elementwise.h"

namespace mpsx::ops {
namespace {

bool polygamma(int64_t n, const Tensor& self, Tensor& out) {
  static const ElementwiseKernels kernels("polygamma", 1);
  const Tensor x = at::isIntegralType(self.scalar_type(), true)
                       ? self.to(c10::typeMetaToScalarType(c10::get_default_dtype()))
                       : self;
  if (!has_float_kernel(x) || !accepts(out, x.scalar_type())) return false;
  TORCH_CHECK(n >= 0, "polygamma(n, x) does not support negative n.");
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(x).build();
  kernels.run(iter, tag_of(x), scalar_params(n));
  if (!out.defined()) out = iter.output();
  return true;
}

Tensor& mvlgamma_out(const Tensor& self, int64_t p, Tensor& out) {
  return_or_copy("mvlgamma", at::mvlgamma(self, p), out);
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"polygamma", &polygamma>(m);
  impl(m, "mvlgamma.out", &mvlgamma_out);
}

}  // namespace mpsx::ops
