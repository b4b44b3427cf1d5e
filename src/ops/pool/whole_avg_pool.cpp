#include "ops/pool/whole_avg_pool.h"

#include <ATen/ops/empty.h>

#include <algorithm>

#include "ops/pool/pool.h"

namespace mpsx::ops {

void whole_avg_pool(const Tensor& in, const Tensor& out, at::IntArrayRef kernel, at::IntArrayRef stride,
                    at::IntArrayRef padding, bool count_include_pad, std::optional<int64_t> divisor, size_t dims) {
  static const KernelSet kernels("avg_pool3d");
  if (out.numel() == 0) return;
  Pool3dParams p{
      {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, count_include_pad, pool_size(divisor.value_or(0))};
  uint64_t taps = 1;
  int64_t plane = 1;
  for (size_t d = 0; d < dims; ++d) {
    const size_t to = 3 - dims + d, dim = size_t(in.dim()) - dims + d;
    p.in[to] = pool_size(in.sizes()[dim]);
    p.out[to] = pool_size(out.sizes()[dim]);
    p.kernel[to] = pool_size(window_argument(kernel, d, 1));
    p.stride[to] = pool_size(window_argument(stride, d, p.kernel[to]));
    p.pad[to] = pool_size(window_argument(padding, d, 0));
    taps *= uint64_t(p.kernel[to]);
    plane *= p.in[to];
  }
  TORCH_CHECK(plane <= INT32_MAX, "avg_pool: expected planes of at most 2^31-1 elements, got ", in.sizes());
  const Tensor from = in.contiguous(), to = out.is_contiguous() ? out : at::empty(out.sizes(), out.options());
  const uint32_t tile = runtime::driver().info().vector_bytes == 0 ? kPoolTile : 1, columns = uint32_t(p.out[2]);
  const uint64_t rows = uint64_t(p.out[0]) * uint64_t(p.out[1]);
  Launch(kernels.get(tag_of(in)))
      .pointer(to.mutable_data_ptr())
      .pointer(from.const_data_ptr())
      .bytes(p)
      .threads((columns + tile - 1) / tile, rows, uint64_t(out.numel()) / (rows * columns))
      .work(std::min(tile, columns) * taps)
      .run();
  if (!to.is_same(out)) out.copy_(to);
}

}  // namespace mpsx::ops
