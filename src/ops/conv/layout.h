// Factors of convolutions by tiles, as kernels read them.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "conv/params.h"
#include "ops/tiles.h"

namespace mpsx::ops {

// Kernels with tiles of either size.
struct TileKernels {
  KernelSet small, large;
  runtime::KernelEntry& get(const Tensor& t, bool is_large) const { return (is_large ? large : small).get(tag_of(t)); }
};

inline uint32_t volume(const uint32_t (&size)[3]) { return size[0] * size[1] * size[2]; }

inline ConvDivisor divisor_of(uint32_t n) {
  uint32_t shift = 0;
  while ((uint64_t(1) << shift) < n) ++shift;
  return {uint32_t((((uint64_t(1) << shift) - n) << 32) / n + 1), shift};
}

// [..., channels], with zeros up to `padded` of them.
inline Tensor padded_copy(const Tensor& t, int64_t padded) {
  const int64_t channels = t.size(-1);
  if (channels == padded && t.is_contiguous() && reads_wide(t.const_data_ptr(), t.element_size(), padded, 1)) return t;
  auto size = t.sizes().vec();
  size.back() = padded;
  const auto options = t.options().memory_format(std::nullopt);
  const Tensor out = channels == padded ? at::empty(size, options) : at::zeros(size, options);
  out.narrow(-1, 0, channels).copy_(t);
  return out;
}
// The same tensor, [images, channels, ...], with its channels as neighbours in memory.
inline Tensor channels_last(const Tensor& t, int64_t groups) {
  const int64_t channels = t.size(1) / groups;
  return padded_copy(t.movedim(1, -1).unflatten(-1, {groups, channels}), in_whole_runs(channels, t))
      .flatten(-2)
      .movedim(-1, 1);
}

}  // namespace mpsx::ops
