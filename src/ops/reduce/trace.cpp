// Computes the trace of a matrix.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/operator.h"
#include "reduce/params.h"

namespace mpsx::ops {
namespace {

Tensor trace(const Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  const int64_t count = std::min(self.size(0), self.size(1));
  if (!has_number_kernel(self) || self.scalar_type() == at::kBool || count > int64_t(UINT32_MAX))
    return self.diagonal().sum();
  static const KernelSet kernels("trace");
  const bool whole = at::isIntegralType(self.scalar_type(), true);
  const Tensor out = at::empty({}, whole ? self.options().dtype(at::kLong) : self.options());
  Launch(kernels.get(tag_of(self)))
      .outputs(out)
      .inputs(self)
      .bytes(TraceParams{self.stride(0) + self.stride(1), uint32_t(count)})
      .groups({1}, std::min(256u, runtime::threads_for_row(uint32_t(count))))
      .work(uint64_t(count))
      .run();
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { impl(m, "trace", &trace); }

}  // namespace mpsx::ops
