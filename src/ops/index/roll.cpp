// roll, with two copies per dimension.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "ops/indexing.h"
#include "ops/operator.h"

namespace mpsx::ops {
namespace {

std::optional<Tensor> roll(const Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  if (!is_bitwise_copyable(self)) return std::nullopt;
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    const Tensor flat = self.contiguous().view(self.numel());
    return ops::roll(flat, shifts, {0})->view(self.sizes());
  }
  TORCH_CHECK(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: ", shifts.size(),
              ", dims:", dims.size());
  Tensor from = self;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = at::maybe_wrap_dim(dims[i], from.dim());
    const int64_t size = from.size(dim), shift = size == 0 ? 0 : ((shifts[i].expect_int() % size) + size) % size;
    // The output has the memory format that at::cat of the two parts would have. If the shift is 0, one part is empty.
    const auto format = shift == 0 ? at::MemoryFormat::Contiguous : from.suggest_memory_format();
    const Tensor to = at::empty_like(from, format);
    if (from.numel() > 0) {
      to.narrow(dim, shift, size - shift).copy_(from.narrow(dim, 0, size - shift));
      if (shift > 0) to.narrow(dim, 0, shift).copy_(from.narrow(dim, size - shift, shift));
    }
    from = to;
  }
  return from;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  op<"roll", &ops::roll>(m);
}

}  // namespace mpsx::ops
