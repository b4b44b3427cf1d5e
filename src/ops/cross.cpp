// linalg.cross; kernels: metal/elementwise/cross.metal.
#include <ATen/ops/linalg_cross_meta.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>

#include "elementwise/cross_params.h"
#include "ops/complex.h"
#include "ops/indexing.h"
#include "ops/structured.h"

namespace mpsx::ops {
namespace {

bool has_cross_kernel(const Tensor& t) { return is_plain(t) && tag_of(t) < Tag::b8; }

// Of contiguous tensors of one shape. Vectors of three neighbours make one line, others one for all that lie before
// them.
void launch_cross(const Tensor& out, const Tensor& a, const Tensor& b, int64_t dim) {
  static const KernelSet kernels("cross");
  const Blocks blocks(out.sizes(), dim);
  const bool apart = blocks.inner > 1;
  const CrossParams p{blocks.inner, apart ? 1 : 3, apart ? 3 * blocks.inner : 0};
  Launch(kernels.get(tag_of(out)))
      .pointer(out.mutable_data_ptr())
      .pointer(a.const_data_ptr())
      .pointer(b.const_data_ptr())
      .bytes(p)
      .threads(grid_size("cross", apart ? blocks.inner : blocks.outer), grid_size("cross", apart ? blocks.outer : 1))
      .work(6)
      .run();
}

// Complex numbers by their products.
void complex_cross(const Tensor& out, const Tensor& a, const Tensor& b, int64_t dim) {
  std::array<Tensor, 3> parts;
  for (int64_t k = 0; k < 3; ++k) {
    const int64_t i = (k + 1) % 3, j = (k + 2) % 3;
    parts[size_t(k)] = at::mul(a.select(dim, i), b.select(dim, j)).sub_(at::mul(a.select(dim, j), b.select(dim, i)));
  }
  for (int64_t k = 0; k < 3; ++k) out.select(dim, k).copy_(parts[size_t(k)]);  // which may be one of the inputs
}

Tensor& cross_out(const Tensor& self, const Tensor& other, int64_t dim, Tensor& out) {
  const bool numbers = has_cross_kernel(self) && has_cross_kernel(other);
  if ((!numbers && !(is_plain_complex(self) && is_plain_complex(other))) || self.scalar_type() != other.scalar_type())
    return fallback_call<Tensor>("aten::linalg_cross", "out", self, other, dim, out), out;
  Structured<at::meta::structured_linalg_cross> outputs(out);
  outputs.meta(self, other, dim);
  const Tensor& result = outputs.result();
  const Tensor a = self.expand(result.sizes()), b = other.expand(result.sizes());
  const int64_t along = dim < 0 ? dim + result.dim() : dim;
  if (result.numel() == 0) return outputs.finish(), out;
  if (numbers)  // whose result the meta function makes contiguous
    launch_cross(result, a.contiguous(), b.contiguous(), along);
  else
    complex_cross(result, a, b, along);
  outputs.finish();
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("linalg_cross.out", &cross_out); }

}  // namespace mpsx::ops
