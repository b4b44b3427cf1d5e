// The tile sizes of the tensor tier's convolutions. Keep them in sync with kConvTiles in src/ops/conv/tensor_cost.h.
#pragma once

#include "lib/tensor_gemm.h"

typedef TensorTile<256, 128, 8, false> Tile256x128;
typedef TensorTile<128, 256, 8, false> Tile128x256;
typedef TensorTile<128, 128, 8, false> Tile128x128;
typedef TensorTile<64, 128, 4, false> Tile64x128;
typedef TensorTile<128, 64, 4, false> Tile128x64;
typedef TensorTile<128, 64, 8, false> Tile128x64f32;  // float32 needs one SIMD group per 16 rows

// Call F(type, tag, name, tile) for the tiles of a type.
#define MPSX_CONV_TILES_16_BIT(F, T, TAG) \
  F(T, TAG, "256x128", Tile256x128)       \
  F(T, TAG, "128x256", Tile128x256)       \
  F(T, TAG, "128x128", Tile128x128)       \
  F(T, TAG, "64x128", Tile64x128)         \
  F(T, TAG, "128x64", Tile128x64)
#define MPSX_CONV_TILES_F32(F)          \
  F(float, f32, "128x128", Tile128x128) \
  F(float, f32, "64x128", Tile64x128)   \
  F(float, f32, "128x64", Tile128x64f32)
