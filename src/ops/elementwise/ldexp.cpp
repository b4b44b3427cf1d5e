// ldexp, which multiplies numbers by powers of two.
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <torch/library.h>

#include "ops/elementwise/binary.h"

namespace mpsx::ops {
namespace {

constexpr BinaryRow kLdexp{"ldexp", "Tensor", Types::FLOAT, Promotion::COMMON, ElementwiseKernels::Order::FIXED};

// Computes in float32, because the power of two may be out of range for the output's dtype.
bool ldexp(const Tensor& self, const Tensor& other, Tensor& out) {
  static const ElementwiseKernels kernels = kLdexp.kernels();
  const at::ScalarType type = self.scalar_type();
  const bool whole = at::isFloatingType(type) && at::isIntegralType(other.scalar_type(), true);
  if (!whole) {
    if (other.dim() == 0 && other.scalar_type() != type) return false;  // here, the CPU promotes `other` to double
    const at::Scalar two = self.is_complex() ? at::Scalar(c10::complex<double>(2.0)) : at::Scalar(2.0);
    const Tensor power = at::pow(two, other);  // PyTorch's formula, except if self is float and other is integral
    if (out.defined())
      at::mul_out(out, self, power);
    else
      out = at::mul(self, power);
    return true;
  }
  if (!is_float_tag(tag_of(type))) return false;
  // On the CPU, powers of two are contiguous for float32 and have the strides of the exponent for 16-bit types.
  const auto format = type == at::kFloat ? at::MemoryFormat::Contiguous : at::MemoryFormat::Preserve;
  const Tensor x = self.to(at::kFloat), exponent = other.to(at::kFloat, false, false, format);
  if (binary_compute_type(kLdexp, kernels, x, exponent) == at::ScalarType::Undefined) return false;
  if (type == at::kFloat) return run_binary(kLdexp, kernels, type, x, exponent, ScalarParams{}, out);
  if (out.defined()) return false;  // op<> retries without `out` and copies the result
  Tensor product;
  run_binary(kLdexp, kernels, at::kFloat, x, exponent, ScalarParams{}, product);
  out = product.to(type);
  return true;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"ldexp.Tensor", &ldexp>(m); }

}  // namespace mpsx::ops
