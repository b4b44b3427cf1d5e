// linalg.cross. The kernels are in metal/elementwise/cross.metal.
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/linalg_cross_meta.h>
#include <torch/library.h>

#include "elementwise/cross_params.h"
#include "ops/indexing.h"
#include "ops/operator.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

bool has_cross_kernel(const Tensor& t) { return is_plain(t) && (tag_of(t) < Tag::b8 || tag_of(t) == Tag::c64); }

// The operands must be contiguous and have the same shape. If the components of a vector are adjacent, all vectors form
// a single row. Otherwise, there is one row for each index of the preceding dimensions.
void launch_cross(const Tensor& out, const Tensor& a, const Tensor& b, int64_t dim) {
  static const KernelSet kernels("cross");
  const Blocks blocks(out.sizes(), dim);
  const bool apart = blocks.inner > 1;
  const CrossParams p{blocks.inner, apart ? 1 : 3, apart ? 3 * blocks.inner : 0};
  Launch(kernels.get(tag_of(out)))
      .outputs(out)
      .inputs(a, b)
      .bytes(p)
      .threads(grid_size("cross", apart ? blocks.inner : blocks.outer), grid_size("cross", apart ? blocks.outer : 1))
      .work(6)
      .run();
}

bool cross(const Tensor& self, const Tensor& other, int64_t dim, Tensor& out) {
  if (!has_cross_kernel(self) || !has_cross_kernel(other) || self.scalar_type() != other.scalar_type()) return false;
  Structured<at::meta::structured_linalg_cross> outputs(out);
  outputs.meta(self, other, dim);
  for (const Tensor* t : {&self, &other})
    if (out.defined()) at::assert_no_partial_overlap(out, *t);
  const Tensor& result = outputs.result();
  if (result.numel() > 0)  // the meta function makes the result contiguous
    launch_cross(result, self.expand(result.sizes()).contiguous(), other.expand(result.sizes()).contiguous(),
                 dim < 0 ? dim + result.dim() : dim);
  return outputs.return_or_copy(out);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { op<"linalg_cross", &cross>(m); }

}  // namespace mpsx::ops
