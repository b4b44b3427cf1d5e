// Launcher of metal/matmul/int4.metal.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "matmul/params.h"
#include "ops/op.h"
#include "ops/tiles.h"
#include "runtime/teams.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kTile = 8, kDepthTile = 16, kLanes = 32;  // what the packed tensor's shape is made of
constexpr uint32_t kFewRows = 4;

// Two weights a byte, the first in the high half, into the blocks that the kernels read; in PyTorch's shape for GPUs,
// (columns / 8, depth / (16 inner_tiles), 32, inner_tiles / 2) of int32.
Tensor convert_weight(const Tensor& weight, int64_t inner_tiles) {
  TORCH_CHECK(weight.dim() == 2, "_convert_weight_to_int4pack: expected a weight of two dimensions, got ",
              weight.sizes());
  TORCH_CHECK(weight.scalar_type() == at::kByte, "_convert_weight_to_int4pack: expected a weight of uint8, got ",
              weight.scalar_type());
  TORCH_CHECK(inner_tiles == 2 || inner_tiles == 4 || inner_tiles == 8,
              "_convert_weight_to_int4pack: expected innerKTiles of 2, 4 or 8, got ", inner_tiles);
  const int64_t columns = weight.size(0), depth = weight.size(1) * 2;
  TORCH_CHECK(columns % kTile == 0 && depth % (kDepthTile * inner_tiles) == 0,
              "_convert_weight_to_int4pack: expected a multiple of ", kTile, " rows of a multiple of ",
              kDepthTile * inner_tiles, " weights, got ", columns, " of ", depth);
  const Tensor halves = weight.contiguous().view({columns, depth / kInt4Block, 2, kInt4Block / 4});
  // (columns, blocks, half, bytes, place in the byte) of one weight each
  const Tensor each = at::empty({columns, depth / kInt4Block, 2, kInt4Block / 4, 2}, weight.options());
  each.select(-1, 0).copy_(halves.bitwise_right_shift(4));
  each.select(-1, 1).copy_(halves.bitwise_and(15));
  const Tensor low = each.select(2, 0).flatten(2), high = each.select(2, 1).flatten(2);
  const Tensor packed = high.bitwise_left_shift(4).bitwise_or_(low);
  return packed.view({columns, depth / 2})
      .view(at::kInt)
      .view({columns / kTile, depth / (kDepthTile * inner_tiles), kLanes, inner_tiles / 2});
}

Tensor weight_int4pack_mm(const Tensor& self, const Tensor& weight, int64_t group, const Tensor& scales) {
  static const KernelSet tiles("matmul_int4"), rows("matmul_int4_rows");
  TORCH_CHECK(has_float_kernel(self) && self.dim() == 2,
              "_weight_int4pack_mm: expected self to be a matrix of float32, float16 or bfloat16, got ",
              self.scalar_type(), " ", self.sizes());
  TORCH_CHECK(is_plain(weight) && weight.scalar_type() == at::kInt && weight.dim() == 4 && weight.is_contiguous(),
              "_weight_int4pack_mm: expected a weight of _convert_weight_to_int4pack, got ", weight.scalar_type(), " ",
              weight.sizes());
  TORCH_CHECK(group == 32 || group == 64 || group == 128 || group == 256,
              "_weight_int4pack_mm: expected groups of 32, 64, 128 or 256, got ", group);
  const int64_t columns = weight.size(0) * kTile, depth = self.size(1);
  TORCH_CHECK(weight.numel() * 8 == columns * depth && depth % group == 0,
              "_weight_int4pack_mm: expected self of as many columns as the weight is deep, in whole groups of ", group,
              ", got ", self.sizes(), " and a depth of ", weight.numel() * 8 / std::max<int64_t>(columns, 1));
  TORCH_CHECK(is_plain(scales) && scales.scalar_type() == self.scalar_type() &&
                  scales.sizes() == at::IntArrayRef({depth / group, columns, 2}),
              "_weight_int4pack_mm: expected scales and zeros of size [", depth / group, ", ", columns, ", 2] and ",
              self.scalar_type(), ", got ", scales.sizes(), " and ", scales.scalar_type());
  TORCH_CHECK(self.size(0) <= int64_t(INT32_MAX) && columns <= int64_t(INT32_MAX) && depth <= int64_t(INT32_MAX),
              "_weight_int4pack_mm: expected sizes below 2^31, got ", self.sizes());
  const Tensor out = at::empty({self.size(0), columns}, self.options());
  if (out.numel() == 0) return out;
  Int4Params p{};
  p.rows = uint32_t(self.size(0));
  p.columns = uint32_t(columns);
  p.depth = uint32_t(depth);
  p.group = uint32_t(group);
  const bool few = p.rows <= kFewRows;
  const auto wide = [](const Tensor& t) {
    return reads_wide(t.const_data_ptr(), t.element_size(), t.stride(0), t.stride(1));
  };
  const Tensor a = few && !(self.stride(1) == 1 && wide(self)) ? self.clone(at::MemoryFormat::Contiguous) : self;
  const Tensor factors = scales.contiguous();
  p.a_row = a.stride(0);
  p.a_column = a.stride(1);
  p.wide_a = self.scalar_type() == at::kFloat && wide(a);
  const Tensor packed = few && !aligned(weight) ? weight.clone() : weight;
  const auto bind = [&](Launch& l) -> Launch& {
    return l.pointer(out.mutable_data_ptr())
        .pointer(a.const_data_ptr())
        .pointer(packed.const_data_ptr())
        .pointer(factors.const_data_ptr())
        .bytes(p);
  };
  if (few) {
    auto& kernel = rows.get(tag_of(self));
    const auto teams = runtime::teams_for(kernel, uint64_t(p.columns) * p.rows, p.depth / kInt4Block, 1, 4);
    p.team = teams.team;
    Launch l(kernel);
    bind(l).groups({uint32_t(ceil_div(p.columns, teams.rows)), p.rows}, teams.per_group);
    l.work((p.depth / 2 + 16) * teams.rows).run();
    return out;
  }
  Launch l(tiles.get(tag_of(self)));
  over_tiles(bind(l), p.rows, p.columns, 1, p.depth).run();
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_convert_weight_to_int4pack", &convert_weight);
  m.impl("_weight_int4pack_mm", &weight_int4pack_mm);
}

}  // namespace mpsx::ops
