// Transposed convolutions by steps: columns of each element, added up where they overlap.
#pragma once

#include <ATen/ops/empty.h>

#include <algorithm>

#include "conv/params.h"
#include "ops/matmul/matmul.h"

namespace mpsx::ops {

inline uint32_t volume(const uint32_t (&size)[3]) { return size[0] * size[1] * size[2]; }

// Backward by steps: the columns that the windows take from each element, [images, rows * taps, places], are a product
// of matrices, and are added up where they overlap.
inline void apply_columns(const Tensor& out, const Tensor& source, const Tensor& weight, const Tensor& bias,
                          ConvParams p, uint32_t groups) {
  static const KernelSet kernels("conv_fold");
  constexpr int64_t kMostColumns = int64_t(1) << 23;  // at once: they stay in a large cache
  const int64_t places = volume(p.window.source), taps = volume(p.window.taps), rows = p.rows, channels = p.channels;
  const int64_t images = out.size(0), at_once = std::clamp<int64_t>(kMostColumns / (rows * taps * places), 1, images);
  const Tensor columns = at::empty({at_once, rows * taps, places}, out.options().memory_format(std::nullopt));
  const Tensor from = source.reshape({images, groups, channels, places});
  const Tensor factors = weight.reshape({groups, channels, rows * taps}).transpose(1, 2).contiguous();
  p.depth = uint32_t(places);
  for (int64_t image = 0; image < images; image += at_once) {
    const int64_t here = std::min(at_once, images - image);
    for (int64_t group = 0; group < groups; ++group) {
      matrix_product(columns.narrow(0, 0, here), factors[group].expand({here, rows * taps, channels}),
                     from.narrow(0, image, here).select(1, group));
      Launch l(kernels.get(tag_of(out)));
      l.pointer(out.narrow(0, image, here).narrow(1, group * rows, rows).mutable_data_ptr());
      l.pointer(columns.const_data_ptr());
      l.pointer(p.has_bias ? bias.narrow(0, group * rows, rows).const_data_ptr() : nullptr).bytes(p);
      l.threads(uint64_t(here) * p.image_positions, uint64_t(rows)).work(uint64_t(taps)).run();
    }
  }
}

}  // namespace mpsx::ops
