// Operand layouts of the implicit-GEMM kernels.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "conv/params.h"
#include "ops/gemm.h"
#include "ops/strided_view.h"

namespace mpsx::ops {

// The kernels with 64x64 and 128x128 tiles, and the kernels of the tensor tier with 64x64 tiles.
struct TiledKernels {
  explicit TiledKernels(const std::string& stem) : tile64(stem), tile128(stem + "_128"), tensor(stem + "_tensor") {}
  KernelSet tile64, tile128, tensor;
  runtime::KernelEntry& get(const Tensor& t, bool use_tile128) const {
    return (use_tile128 ? tile128 : uses_tensor_fragments(t) ? tensor : tile64).get(tag_of(t));
  }
};

inline bool conv_prefers_tile128(const Tensor& out, uint64_t M, uint64_t N, uint64_t batch) {
  return !uses_tensor_fragments(out) && prefers_tile128(M, N, batch, out.element_size());
}

// Returns the number of pixels of an [images, channels, ...] tensor, or of taps of a weight, in each channel.
inline int64_t spatial_size(const Tensor& t) { return c10::multiply_integers(t.sizes().slice(2)); }

inline uint32_t volume(const uint32_t (&size)[3]) { return size[0] * size[1] * size[2]; }

inline FastDivmod make_fast_divmod(uint32_t n) {
  uint32_t shift = 0;
  while ((uint64_t(1) << shift) < n) ++shift;
  return {uint32_t((((uint64_t(1) << shift) - n) << 32) / n + 1), shift};
}

// Pads the last dimension with zeros to `padded_channels`. Returns `t` itself if the kernels can read it directly.
inline Tensor pad_channels(const Tensor& t, int64_t padded_channels) {
  const int64_t channels = t.size(-1);
  if (channels == padded_channels && t.is_contiguous() &&
      is_vectorizable(t.const_data_ptr(), t.element_size(), padded_channels, 1))
    return t;
  auto size = t.sizes().vec();
  size.back() = padded_channels;
  const auto options = t.options().memory_format(std::nullopt);
  const Tensor out = channels == padded_channels ? at::empty(size, options) : at::zeros(size, options);
  out.narrow(-1, 0, channels).copy_(t);
  return out;
}
// Makes the channels of an [images, channels, ...] tensor contiguous, and pads each group to whole vectors.
inline Tensor to_channels_last(const Tensor& t, int64_t groups) {
  const int64_t channels = t.size(1) / groups, padded = round_up_to_vector(channels, t);
  if (groups == 1) return pad_channels(t.movedim(1, -1), padded).movedim(-1, 1);
  return pad_channels(t.movedim(1, -1).unflatten(-1, {groups, channels}), padded).flatten(-2).movedim(-1, 1);
}

}  // namespace mpsx::ops
