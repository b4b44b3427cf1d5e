// Launches the kernels in metal/matmul/int4.metal, gemv_int.metal, and gemv_int4_tensor.metal.
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <bit>

#include "matmul/params.h"
#include "ops/gemm.h"
#include "ops/matmul/matmul.h"
#include "ops/operator.h"
#include "runtime/tier.h"

namespace mpsx::ops {
namespace {

constexpr int64_t kTile = 8, kTileK = 16, kLanes = 32;  // factors in the packed tensor's shape
constexpr uint32_t kFewRows = 4;

// Repacks weights to the blocks that the kernels read. The input has two weights per byte, with the first one in the
// high half. The result is int32 and has the same shape as on PyTorch's GPU backends: (N / 8, K / (16 inner_tiles), 32,
// inner_tiles / 2).
Tensor convert_weight(const Tensor& weight, int64_t inner_tiles) {
  TORCH_CHECK(weight.dim() == 2, "_convert_weight_to_int4pack: expected a weight of two dimensions, got ",
              weight.sizes());
  TORCH_CHECK(weight.scalar_type() == at::kByte, "_convert_weight_to_int4pack: expected a weight of uint8, got ",
              weight.scalar_type());
  TORCH_CHECK(inner_tiles == 2 || inner_tiles == 4 || inner_tiles == 8,
              "_convert_weight_to_int4pack: expected innerKTiles of 2, 4 or 8, got ", inner_tiles);
  const int64_t N = weight.size(0), K = weight.size(1) * 2;
  TORCH_CHECK(N % kTile == 0 && K % (kTileK * inner_tiles) == 0, "_convert_weight_to_int4pack: expected a multiple of ",
              kTile, " rows of a multiple of ", kTileK * inner_tiles, " weights, got ", N, " of ", K);
  const Tensor halves = weight.contiguous().view({N, K / kInt4Block, 2, kInt4Block / 4});
  // Unpack to one weight per element. The dimensions are row, block, half of a block, byte, and half of a byte.
  const Tensor unpacked = at::empty({N, K / kInt4Block, 2, kInt4Block / 4, 2}, weight.options());
  unpacked.select(-1, 0).copy_(halves.bitwise_right_shift(4));
  unpacked.select(-1, 1).copy_(halves.bitwise_and(15));
  const Tensor low = unpacked.select(2, 0).flatten(2), high = unpacked.select(2, 1).flatten(2);
  const Tensor packed = high.bitwise_left_shift(4).bitwise_or_(low);
  return packed.view({N, K / 2}).view(at::kInt).view({N / kTile, K / (kTileK * inner_tiles), kLanes, inner_tiles / 2});
}

// Multiplies by dequantized parts of the weight that fit in a GPU's L2 cache.
void multiply_dequantized(const Tensor& out, const Tensor& a, const Tensor& packed, const Tensor& scales,
                          const Int4Params& p) {
  static const KernelSet dequantize("dequantize_int4");
  constexpr int64_t kPartBytes = 24 << 20;
  const int64_t row_bytes = int64_t(p.K) * int64_t(out.element_size());
  const int64_t rows = std::min<int64_t>(p.N, std::max<int64_t>(kPartBytes / row_bytes / kTile * kTile, kTile));
  const Tensor part = at::empty({rows, p.K}, out.options());
  for (int64_t first = 0; first < p.N; first += rows) {
    const int64_t count = std::min(rows, p.N - first);
    Launch l(dequantize.get(tag_of(out)));
    l.outputs(part).inputs(packed, scales).bytes(p).bytes(uint32_t(first));
    l.threads(p.K / 4, uint64_t(count)).work(4).run();
    gemm(out.narrow(1, first, count), a, part.narrow(0, 0, count).t());
  }
}

// Whether to multiply with the tensor tier's GEMV.
bool uses_tensor_gemv(const Tensor& a, uint32_t M) {
  const Tag tag = tag_of(a);
  return (tag == Tag::f16 || tag == Tag::bf16) && runtime::uses_tensor_tier() &&
         runtime::prefers_large_tensor_tiles() && M <= runtime::tuning().int4_gemv_rows;
}
void launch_tensor_gemv(const Tensor& out, const Tensor& a, const Tensor& packed, const Tensor& scales,
                        const Int4Params& p) {
  static const KernelSet kernels[] = {KernelSet("gemv_int4_tensor_1"), KernelSet("gemv_int4_tensor_2"),
                                      KernelSet("gemv_int4_tensor_4")};
  const uint32_t words = std::min<uint32_t>(p.group / kInt4Block, 4);  // of a row, that a thread loads at a time
  auto& kernel = kernels[words / 2].get(tag_of(out));
  const uint32_t width = kernel.kernel->simd_width;
  const uint32_t columns = uint32_t(ceil_div(p.N, kInt4GemvColumns)), rows = uint32_t(ceil_div(p.M, kInt4GemvRows));
  // A SIMD group multiplies two blocks of `words` words at a time. More SIMD groups per threadgroup are only faster if
  // they run on multiprocessors that would be idle otherwise (H200, 4096 to 50256 columns).
  const uint64_t pairs = ceil_div(p.K, 2 * words * kInt4Block);
  const uint64_t idle = uint64_t(runtime::target_resident_threads()) / 2 / (uint64_t(columns) * rows * width);
  const uint64_t wanted = std::bit_floor(std::clamp<uint64_t>(idle, kInt4GemvSimdGroups / 4, kInt4GemvSimdGroups));
  const uint64_t simdgroups = std::min(wanted, pairs);
  Launch l(kernel);
  l.outputs(out).inputs(a, packed, scales).bytes(p).groups({columns, rows}, uint32_t(simdgroups) * width);
  l.work((p.K / 2 + 16) * kInt4GemvColumns).run();
}

Tensor weight_int4pack_mm(const Tensor& self, const Tensor& weight, int64_t group, const Tensor& scales) {
  static const KernelSet tiled("matmul_int4"), gemv("gemv_int4");
  TORCH_CHECK(has_float_kernel(self) && self.dim() == 2,
              "_weight_int4pack_mm: expected self to be a matrix of float32, float16 or bfloat16, got ",
              self.scalar_type(), " ", self.sizes());
  TORCH_CHECK(is_plain(weight) && weight.scalar_type() == at::kInt && weight.dim() == 4 && weight.is_contiguous(),
              "_weight_int4pack_mm: expected a weight of _convert_weight_to_int4pack, got ", weight.scalar_type(), " ",
              weight.sizes());
  TORCH_CHECK(group == 32 || group == 64 || group == 128 || group == 256,
              "_weight_int4pack_mm: expected groups of 32, 64, 128 or 256, got ", group);
  const int64_t N = weight.size(0) * kTile, K = self.size(1);
  TORCH_CHECK(weight.numel() * 8 == N * K && K % group == 0,
              "_weight_int4pack_mm: expected self to have K columns like the weight, and K to be a multiple of ", group,
              ", got ", self.sizes(), " and K = ", weight.numel() * 8 / std::max<int64_t>(N, 1));
  TORCH_CHECK(is_plain(scales) && scales.scalar_type() == self.scalar_type() &&
                  scales.sizes() == at::IntArrayRef({K / group, N, 2}),
              "_weight_int4pack_mm: expected scales and zeros of size [", K / group, ", ", N, ", 2] and ",
              self.scalar_type(), ", got ", scales.sizes(), " and ", scales.scalar_type());
  TORCH_CHECK(self.size(0) <= int64_t(INT32_MAX) && N <= int64_t(INT32_MAX) && K <= int64_t(INT32_MAX),
              "_weight_int4pack_mm: expected sizes below 2^31, got ", self.sizes());
  const Tensor out = at::empty({self.size(0), N}, self.options());
  if (out.numel() == 0) return out;
  Int4Params p{};
  p.M = uint32_t(self.size(0));
  p.N = uint32_t(N);
  p.K = uint32_t(K);
  p.group = uint32_t(group);
  const bool tensor_gemv = uses_tensor_gemv(self, p.M), few = tensor_gemv || p.M <= kFewRows;
  const auto vectorizable = [](const Tensor& t) {
    return is_vectorizable(t.const_data_ptr(), t.element_size(), t.stride(0), t.stride(1));
  };
  const Tensor a =
      few && !(self.stride(1) == 1 && vectorizable(self)) ? self.clone(at::MemoryFormat::Contiguous) : self;
  const Tensor dense_scales =
      tensor_gemv && !aligned(scales) ? scales.clone(at::MemoryFormat::Contiguous) : scales.contiguous();
  p.a_row = a.stride(0);
  p.a_column = a.stride(1);
  p.vectorize_a = self.scalar_type() == at::kFloat && vectorizable(a);
  const Tensor packed = few && !aligned(weight) ? weight.clone() : weight;
  const auto bind = [&](Launch& l) -> Launch& { return l.outputs(out).inputs(a, packed, dense_scales).bytes(p); };
  if (tensor_gemv) {
    launch_tensor_gemv(out, a, packed, dense_scales, p);
    return out;
  }
  if (few) {
    auto& kernel = gemv.get(tag_of(self));
    const auto lane_groups = gemv_int_lane_groups(kernel, p.M, p.N, p.K / kInt4Block);
    p.row_threads = lane_groups.lanes;
    Launch l(kernel);
    const uint64_t rows = uint64_t(lane_groups.rows_per_threadgroup) * kGemvRows;
    bind(l).groups({uint32_t(ceil_div(p.N, rows)), p.M}, lane_groups.threadgroup_size);
    l.work((p.K / 2 + 16) * rows).run();
    return out;
  }
  if (runtime::uses_tensor_tier() && p.M >= runtime::tuning().int4_dequantized_rows) {
    multiply_dequantized(out, a, packed, dense_scales, p);
    return out;
  }
  Launch l(tiled.get(tag_of(self)));
  set_gemm_grid(bind(l), p.M, p.N, 1, p.K).run();
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  impl(m, "_convert_weight_to_int4pack", &convert_weight);
  impl(m, "_weight_int4pack_mm", &weight_int4pack_mm);
}

}  // namespace mpsx::ops
