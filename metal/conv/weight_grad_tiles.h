// The tiles of weight gradients on the tensor tier. Keep their sizes in sync with kConvWeightTiles in
// src/ops/conv/tensor_cost.h.
#pragma once

#include "conv/gemm_tiles.h"

// Stores a tile of partial sums.
struct ConvWeightGradPartials {
  device float* data;
  uint M, N;
  template <typename Sum>
  METAL_FUNC void store(thread Sum& sum, TileOffset tile) const {
    sum.store(tensor(data, dextents<int, 2>(int(N), int(M)), array<int, 2>{1, int(N)}).slice(int(tile.n), int(tile.m)));
  }
};

typedef TensorTile<128, 192, 8, false> Tile128x192;
typedef TensorTile<64, 192, 4, false> Tile64x192;

// Calls F(type, tag, name, tile) for the tiles of each type.
#define MPSX_CONV_WEIGHT_GRAD_TILES_16_BIT(F, T, TAG) \
  F(T, TAG, "128x256", Tile128x256)                   \
  F(T, TAG, "128x192", Tile128x192)                   \
  F(T, TAG, "128x128", Tile128x128)                   \
  F(T, TAG, "64x192", Tile64x192)                     \
  F(T, TAG, "64x128", Tile64x128)
#define MPSX_CONV_WEIGHT_GRAD_TILES(F)                \
  MPSX_CONV_WEIGHT_GRAD_TILES_16_BIT(F, half, f16)    \
  MPSX_CONV_WEIGHT_GRAD_TILES_16_BIT(F, bfloat, bf16) \
  F(float, f32, "128x128", Tile128x128)               \
  F(float, f32, "64x128", Tile64x128)
