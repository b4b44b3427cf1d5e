// Launches the kernels in metal/sort/mode.metal.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/selected.h"

namespace mpsx::ops {
namespace {

bool mode(const Tensor& self, int64_t dim, bool keepdim, Tensor& values, Tensor& indices) {
  static const KernelSet kernels("mode");
  if (!has_number_kernel(self)) return false;
  check_selected("mode", self, values, indices);
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  TORCH_CHECK_INDEX(self.dim() == 0 || self.size(d) > 0, "mode(): Expected reduction dim ", dim,
                    " to have non-zero size.");
  c10::DimVector sizes(self.sizes());
  if (!sizes.empty()) sizes[size_t(d)] = 1;
  Tensor found = at::empty(sizes, self.options()), positions = at::empty(sizes, self.options().dtype(at::kLong));
  if (found.numel() > 0) {
    const auto [sorted, order] = (self.dim() == 0 ? self.reshape({1}) : self.movedim(d, -1).contiguous()).sort();
    const uint32_t size = grid_size("mode", sorted.size(-1));
    Launch(kernels.get(tag_of(self)))
        .outputs(found, positions)
        .inputs(sorted, order)
        .bytes(size)
        .groups({grid_size("mode", found.numel())}, runtime::threads_for_row(size))
        .work(size)
        .run();
  }
  if (!keepdim && self.dim() > 0) found = found.squeeze(d), positions = positions.squeeze(d);
  return return_or_copy("mode", found, values) && return_or_copy("mode", positions, indices);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"mode", &mode>(m); }

}  // namespace mpsx::ops
