// Transposed convolutions by steps: columns of each element, added up where they overlap.
#pragma once

#include <algorithm>

#include "ops/conv/layout.h"

namespace mpsx::ops {

// Backward by steps: the columns that the windows take from each element, [images, rows * taps, places] in float32, are
// a product of matrices, and are added up where they overlap.
inline void apply_columns(const Tensor& out, const Tensor& source, const Tensor& weight, const Tensor& bias,
                          ConvParams p, uint32_t groups) {
  static const TileKernels products{KernelSet("conv_columns"), KernelSet("conv_columns_large")};
  static const KernelSet fold("conv_fold");
  constexpr int64_t kMostColumns = int64_t(1) << 23;  // at once: they stay in a large cache
  const int64_t places = volume(p.window.source), images = out.size(0);
  const int64_t rows = int64_t(p.rows) * volume(p.window.taps), all_rows = groups * rows;
  const int64_t at_once = std::clamp<int64_t>(kMostColumns / (all_rows * places), 1, images);
  const Tensor columns =
      at::empty({at_once, all_rows, places}, out.options().dtype(at::kFloat).memory_format(std::nullopt));
  const Tensor from = channels_last(source, groups);
  const int64_t padded = from.size(1) / groups;
  const Tensor factors = padded_copy(weight.reshape({groups, p.channels, rows}).transpose(1, 2), padded);
  ConvParams q{};
  q.rows = uint32_t(rows);
  q.columns = q.image_positions = uint32_t(places);
  q.by_image = divisor_of(q.columns);
  q.channels = q.padded = q.depth = uint32_t(padded);
  q.matrix = {padded, 0, rows * padded, 0};
  q.wide_matrix = 1;
  q.image_stride = from.stride(0);
  q.channel_stride = 1;
  q.source_stride[2] = groups * padded;
  q.out_image = all_rows * places;
  q.out_channel = places;
  q.out_place = 1;
  q.splits = 1;
  q.split_depth = q.depth;
  p.rows *= groups;
  p.depth = q.columns;
  for (int64_t image = 0; image < images; image += at_once) {
    const int64_t here = std::min(at_once, images - image);
    const bool large = takes_large_tiles(q.rows, q.columns, uint64_t(groups * here), out.element_size());
    q.images = q.per_group = uint32_t(here);
    Launch product(products.get(out, large));
    product.pointer(columns.mutable_data_ptr()).pointer(from.narrow(0, image, here).const_data_ptr());
    product.pointer(factors.const_data_ptr()).pointer(nullptr).bytes(q).pointer(nullptr);
    over_tiles(product, q.rows, q.columns, uint64_t(groups * here), q.depth, large).run();
    Launch last(fold.get(tag_of(out)));
    last.pointer(out.narrow(0, image, here).mutable_data_ptr()).pointer(columns.const_data_ptr());
    last.pointer(p.has_bias ? bias.const_data_ptr() : nullptr).bytes(p);
    last.threads(uint64_t(here) * p.image_positions, p.rows).work(volume(p.window.taps)).run();
  }
}

}  // namespace mpsx::ops
