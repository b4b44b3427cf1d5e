// Weight gradients of convolutions of channels-last tensors without copies: a GEMM of the output gradient and, for each
// tap, the input's pixels that the outputs read. K are the outputs, in boxes (conv_pixels_tensor.metal). It is split,
// and conv_weight_grad_reduce_tensor adds the partial sums.
#include "conv/pixel_boxes.h"
#include "conv/weight_grad_tiles.h"
#include "lib/instantiate.h"

// A tile is the sum of one product per box, from box `first` up to `last` (lib/multiply_pixels.h). The right operand
// has the channels of each tap in turn, padded to blocks of BLOCK columns. A single thread requests all loads, so each
// block's tap and channel are looked up only once.
template <uint BLOCK, uint BLOCKS>
struct ConvWeightPixelSteps {
  constant ConvWeightGradParams& p;
  uint m, first, last;
  PixelIndex tap[BLOCKS];  // its first pixel
  int channel[BLOCKS];     // past the last tap, a channel that does not exist
  METAL_FUNC ConvWeightPixelSteps(constant ConvWeightGradParams& params, TileOffset tile, uint first_box, uint last_box)
      : p(params), m(tile.m), first(first_box), last(last_box) {
    MPSX_UNROLL
    for (uint b = 0; b < BLOCKS; ++b) {
      const uint column = tile.n + b * BLOCK, at = column / p.padded_channels, inside = min(at, p.row_taps - 1);
      tap[b] = first_pixel(inside, p.boxes);
      channel[b] = int(at < p.row_taps ? column - at * p.padded_channels : p.padded_channels);
    }
  }
  METAL_FUNC int count() const { return int(last - first); }
  METAL_FUNC int left_column() const { return int(m); }
  METAL_FUNC PixelIndex left_row(int i) const { return first_output(first + uint(i), p.boxes); }
  METAL_FUNC PixelIndex right_row(int i, int block) const { return tap_pixel(left_row(i), tap[block], p.boxes); }
  METAL_FUNC int right_column(int block) const { return channel[block]; }
};

// Grid: (tiles x matrices, 1, splits)
template <typename T, typename Tile>
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void conv_weight_grad_pixels_tensor(device float* partials [[buffer(0)]], device T* grad [[buffer(1)]],
                                           device T* source [[buffer(2)]],
                                           constant ConvWeightGradParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  constexpr auto descriptor = matmul2d_descriptor(int(Tile::BM), int(Tile::BN), static_cast<int>(dynamic_extent), true,
                                                  false, false, matmul2d_descriptor::mode::multiply_accumulate);
  typedef matmul2d<descriptor, execution_simdgroups<Tile::simd_groups>> Multiply;
  typedef decltype(tensor(grad, dextents<int, 2>(0, 0), array<int, 2>{1, 1})) Operand;
  threadgroup T memory[kPixelRows * (Tile::BM + Tile::BN)];
  const uint tiles = (p.M + Tile::BM - 1) / Tile::BM * ((p.N + Tile::BN - 1) / Tile::BN), matrix = g.group.x / tiles;
  const TileOffset tile = raster_tile<Tile>(g.group.x - matrix * tiles, p.M, p.N);
  const uint first = g.group.z * p.windows_per_split, last = min(p.windows, first + p.windows_per_split);
  const ConvWeightPixelSteps<kPixelDepth<T>, Tile::BN / kPixelDepth<T>> steps(p, tile, first / kPixelDepth<T>,
                                                                              last / kPixelDepth<T>);
  const PixelMatrix<T> A = pixel_matrix(grad + long(matrix) * p.grad_matrix, p.grad, p.boxes, false);
  const PixelMatrix<T> B = pixel_matrix(source + long(matrix) * p.source_matrix, p.source, p.boxes, true);
  Multiply multiply;
  auto sum = multiply.template get_destination_cooperative_tensor<Operand, Operand, float>();
  MPSX_UNROLL
  for (ushort i = 0; i < sum.get_capacity(); ++i) sum[i] = 0.0f;
  MPSX_MULTIPLY_OVER_PIXELS<Tile::BM, Tile::BN>(multiply, A, B, steps, memory, g, sum);
  const ConvWeightGradPartials epilogue = {partials + (ulong(g.group.z) * p.matrices + matrix) * p.M * p.N, p.M, p.N};
  epilogue.store(sum, tile);
}

#define MPSX_CONV_WEIGHT_GRAD_PIXELS(T, TAG, NAME, TILE) \
  MPSX_KERNEL("conv_weight_grad_pixels_tensor_" NAME "_" #TAG, conv_weight_grad_pixels_tensor<T, TILE>)
MPSX_CONV_WEIGHT_GRAD_TILES(MPSX_CONV_WEIGHT_GRAD_PIXELS)
