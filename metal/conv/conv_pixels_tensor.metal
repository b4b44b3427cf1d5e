// Convolution of a channels-last input without a copy, as matmul2d GEMMs.
//
// The outputs are tiled with boxes of pixels. For each tap, the pixels that the outputs of a box read form a box as
// well, shifted by the tap. The convolution is the sum of one GEMM per tap. Boxes may extend past the input, where they
// read zeros, so the input needs no padding.
#include "conv/gemm_tiles.h"
#include "conv/pixel_boxes.h"
#include "conv/tile_epilogue.h"
#include "lib/instantiate.h"

// A tile is the sum of one product per tap (lib/multiply_pixels.h).
struct ConvPixelSteps {
  constant ConvPixelParams& p;
  constant ConvGemmPart& part;
  PixelIndex output;
  uint n;
  bool transposed;
  METAL_FUNC int count() const { return int(part.steps); }
  METAL_FUNC int depth() const { return int(part.K); }
  METAL_FUNC PixelIndex left_row(int i) const {
    return tap_pixel(output, first_pixel(part.first_step + uint(i), p.boxes), p.boxes);
  }
  METAL_FUNC int right_row(int i) const {
    return int(n + (transposed ? uint(i) * part.right_row_step : p.gemm.rows[part.first_step + uint(i)]));
  }
  METAL_FUNC int right_column(int i) const { return transposed ? int(uint(i) * part.right_column_step) : 0; }
};

// The outputs of a box, whose first output is `first`.
struct BoxPixels {
  PixelIndex first;
  uint log2_size[3];
  METAL_FUNC ConvPixel pixel(uint row) const {
    ConvPixel pixel;
    MPSX_UNROLL
    for (uint d = 0; d < 3; ++d) {
      pixel.index[2 - d] = uint(first.at[d]) + (row & ((1u << log2_size[d]) - 1));
      row >>= log2_size[d];
    }
    pixel.image = uint(first.at[3]) + row;
    return pixel;
  }
};

// TRANSPOSED: the weight's rows are outputs, as in conv_gemm_tensor. Otherwise, they are channels of the input, so that
// the weight of a convolution is that of the transposed one as well. Grid: tiles x parts. The parts of a tile are
// adjacent, because they read the same pixels.
template <typename T, typename Tile, bool TRANSPOSED>
[[max_total_threads_per_threadgroup(Tile::threads)]]
kernel void conv_pixels_tensor(device T* out [[buffer(0)]], device T* left [[buffer(1)]], device T* right [[buffer(2)]],
                               device const T* bias [[buffer(3)]], constant ConvPixelParams& p [[buffer(4)]],
                               MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  constexpr auto descriptor = matmul2d_descriptor(int(Tile::BM), int(Tile::BN), static_cast<int>(dynamic_extent), false,
                                                  TRANSPOSED, false, matmul2d_descriptor::mode::multiply_accumulate);
  typedef matmul2d<descriptor, execution_simdgroups<Tile::simd_groups>> Multiply;
  threadgroup T memory[Tile::BM * kPixelDepth<T>];
  constant ConvGemmPart& part = p.gemm.parts[g.group.x % p.gemm.part_count];
  const TileOffset tile = raster_tile<Tile>(g.group.x / p.gemm.part_count, p.gemm.M, p.gemm.N);
  const PixelIndex output = first_output(tile.m / Tile::BM, p.boxes);
  const ConvPixelSteps steps = {p, part, output, tile.n, TRANSPOSED};
  const PixelMatrix<T> A = pixel_matrix(left + part.left, p.source, p.boxes, true);
  const conditional_t<TRANSPOSED, StepMatrix<T>, StepColumns<T>> B = {right + part.right, part.right_pitch,
                                                                      part.right_width, part.right_rows};
  typedef decltype(step_operand(B, 0, 0, 0)) Operand;
  Multiply multiply;
  auto sum = multiply.template get_destination_cooperative_tensor<Operand, Operand, float>();
  MPSX_UNROLL
  for (ushort i = 0; i < sum.get_capacity(); ++i) sum[i] = 0.0f;
  MPSX_MULTIPLY_PIXELS(multiply, A, B, steps, memory, g, sum);
  const BoxPixels box = {output, {p.boxes.log2_size[0], p.boxes.log2_size[1], p.boxes.log2_size[2]}};
  const ConvTensorEpilogue<T, false, BoxPixels> epilogue = {out + part.out, A.data, B.data, bias + part.first_channel,
                                                            nullptr,        p.gemm, part,   box};
  epilogue.store_pixels(sum, {0, tile.n});
}

#define MPSX_CONV_PIXELS_16_BIT(T, TAG, NAME, TILE)                                   \
  MPSX_KERNEL("conv_pixels_tensor_" NAME "_" #TAG, conv_pixels_tensor<T, TILE, true>) \
  MPSX_KERNEL("conv_pixels_by_channel_tensor_" NAME "_" #TAG, conv_pixels_tensor<T, TILE, false>)
#define MPSX_CONV_PIXELS_F32(T, TAG, NAME, TILE) \
  MPSX_KERNEL("conv_pixels_tensor_" NAME "_" #TAG, conv_pixels_tensor<T, TILE, true>)
MPSX_CONV_TILES_16_BIT(MPSX_CONV_PIXELS_16_BIT, half, f16)
MPSX_CONV_TILES_16_BIT(MPSX_CONV_PIXELS_16_BIT, bfloat, bf16)
MPSX_CONV_TILES_F32(MPSX_CONV_PIXELS_F32)
