// equal and _assert_async, which synchronize with the CPU.
#include <ATen/ops/eq.h>
#include <ATen/ops/is_nonzero_native.h>
#include <torch/library.h>

#include "ops/elementwise/complex.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

std::optional<bool> equal(const Tensor& self, const Tensor& other) {
  const bool fits =
      (has_number_kernel(self) && has_number_kernel(other)) || (is_plain_complex(self) && is_plain_complex(other));
  if (!fits || self.scalar_type() != other.scalar_type()) return std::nullopt;
  if (self.sizes() != other.sizes()) return false;
  return self.numel() == 0 || at::eq(self, other).all().item<bool>();
}

void assert_true(const Tensor& self, c10::string_view message) { TORCH_CHECK(at::native::is_nonzero(self), message); }
void assert_async(const Tensor& self) { assert_true(self, "Expected Tensor with single nonzero value, but got zero"); }

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"equal", &ops::equal>(m);
  impl(m, "_assert_async", &assert_async);
  impl(m, "_assert_async.msg", &assert_true);
}

}  // namespace mpsx::ops
