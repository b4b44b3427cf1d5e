// Estimates how long convolutions take on the tensor tier and on the simdgroup tier, in microseconds. The fixed costs
// were measured on an H100. The rates are in runtime/tuning.def and scaled by the number of cores.
#pragma once

#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <string>

#include "ops/conv/pixel_boxes.h"
#include "ops/gemm.h"

namespace mpsx::ops {

using runtime::Tuning;

// A tile size for which conv_gemm_tensor.metal and conv_pixels_tensor.metal have a kernel, and its speeds. `speed_f32`
// is null if the tile has no float32 kernel.
struct ConvTile {
  const char* name;
  uint32_t M, N;
  double Tuning::*speed_16bit, Tuning::*speed_f32;
  uint32_t threads(size_t element_size) const { return element_size == 4 ? M * 2 : M * N <= 128 * 64 ? 128 : 256; }
};
inline constexpr ConvTile kConvTiles[] = {{"128x256", 128, 256, &Tuning::conv_128x256_16bit, nullptr},
                                          {"128x128", 128, 128, &Tuning::conv_128x128_16bit, &Tuning::conv_128x128_f32},
                                          {"256x128", 256, 128, &Tuning::conv_256x128_16bit, nullptr},
                                          {"128x64", 128, 64, &Tuning::conv_128x64_16bit, &Tuning::conv_128x64_f32},
                                          {"64x128", 64, 128, &Tuning::conv_64x128_16bit, &Tuning::conv_64x128_f32}};
// The tile of the kernels for matrices of several groups, which have at most 64 outputs.
inline constexpr size_t kGroupedConvTile = 3;

// Returns the kernels of each tile, whose names are `prefix` and the tile's name.
template <typename Tile, size_t N>
std::deque<KernelSet> kernels_by_tile(const std::string& prefix, const Tile (&tiles)[N]) {
  std::deque<KernelSet> kernels;
  for (const Tile& tile : tiles) kernels.emplace_back(prefix + tile.name);
  return kernels;
}

inline double conv_cores() { return double(runtime::target_resident_threads()) / 1024; }
// Returns how long a kernel takes that reads and writes this many bytes in total.
inline double copy_time(double bytes) { return 3 + bytes / (runtime::tuning().conv_copy_rate * conv_cores()); }

struct ConvTileChoice {
  size_t tile = 0;
  double time = std::numeric_limits<double>::infinity();
};
// Sums over the steps of one or several GEMMs of M x N, which one launch computes. If `boxed` has a value, the rows are
// these outputs, and each row of tiles is a box.
struct ConvWork {
  uint64_t M, N, gemms = 0;
  double k_tiles = 0;  // a tile of K has 128 bytes
  std::optional<BoxedOutputs> boxed{};
  uint64_t rows(uint32_t tile_rows) const { return boxed ? boxed->boxes(tile_rows).total * tile_rows : M; }
  void add(double step_count, uint64_t K, size_t element_size) {
    ++gemms;
    k_tiles += step_count * double(ceil_div(K, 128 / element_size));
  }
};
// Returns the tile size with the least total time, which the core with the most tiles determines. Each tile fills and
// drains the pipeline of loads, and stores its results (kTile). Two threadgroups with small tiles can share a core,
// which overlaps these times.
inline ConvTileChoice choose_conv_tile(const ConvWork& work, size_t element_size) {
  constexpr double kTile = 3.5, kLaunch = 3;
  const Tuning& tuned = runtime::tuning();
  const double gemms = double(work.gemms);
  ConvTileChoice best;
  for (size_t i = 0; i < std::size(kConvTiles); ++i) {
    const ConvTile& t = kConvTiles[i];
    double Tuning::* const member = element_size == 4 ? t.speed_f32 : t.speed_16bit;
    if (!member || tuned.*member == 0) continue;
    const double rate = tuned.conv_rate * tuned.*member, macs = double(t.M) * t.N * 128 / double(element_size);
    const double shared = element_size == 2 && t.M * t.N <= 128 * 128 ? 0.5 : 1;
    const double tile_time = work.k_tiles * macs / rate / gemms + shared * kTile;
    const double tiles = double(tile_count(work.rows(t.M), work.N, work.gemms, t.M, t.N));
    const double time = kLaunch + std::ceil(tiles / conv_cores()) * tile_time;
    if (time < best.time) best = {i, time};
  }
  return best;
}
inline ConvTileChoice choose_conv_tile(uint64_t M, uint64_t N, uint64_t K, uint64_t steps, size_t element_size) {
  ConvWork work{M, N};
  work.add(double(steps), K, element_size);
  return choose_conv_tile(work, element_size);
}

// Returns how many steps each threadgroup computes. Splitting the steps gives all cores work.
inline uint32_t choose_steps_per_split(uint64_t M, uint64_t N, uint64_t K, uint32_t steps, size_t element_size) {
  uint32_t best = steps;
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t splits = 1; splits <= std::min<uint32_t>(steps, 64); ++splits) {
    const auto per_split = uint32_t(ceil_div(steps, splits));
    const ConvTile& t = kConvTiles[choose_conv_tile(M, N, K, per_split, element_size).tile];
    const double waves = std::ceil(double(tile_count(M, N, splits, t.M, t.N)) / conv_cores());
    const double time =
        waves * choose_conv_tile(t.M, t.N, K, per_split, element_size).time + copy_time(double(M * N) * splits * 8);
    if (time < least) least = time, best = per_split;
  }
  return best;
}

// A tile size for which conv_weight_grad_tensor.metal has a kernel. Its speeds are those of matmul's tiles times
// `scale_16bit` or `scale_f32`. A scale of 0 means that the tile has no such kernel.
struct ConvWeightTile {
  const char* name;
  uint32_t M, N, threads;
  double Tuning::*speed_16bit, scale_16bit, scale_f32;
};
// Tiles with 64 rows are limited by shared memory: per product, 64x192 accesses 1.1 times fewer bytes than 64x128. In
// float32, the speeds relate as those of the tiles of conv_gemm_tensor do.
inline constexpr ConvWeightTile kConvWeightTiles[] = {{"128x256", 128, 256, 256, &Tuning::matmul_128x256_16bit, 1, 0},
                                                      {"128x192", 128, 192, 256, &Tuning::matmul_128x192_16bit, 1, 0},
                                                      {"128x128", 128, 128, 256, &Tuning::matmul_128x128_16bit, 1, 1},
                                                      {"64x192", 64, 192, 128, &Tuning::matmul_64x128_16bit, 1.1, 0},
                                                      {"64x128", 64, 128, 128, &Tuning::matmul_64x128_16bit, 1, 0.75}};

struct ConvWeightChoice {
  size_t tile = 0;
  uint64_t splits = 1, windows_per_split = 0;
};
// Returns the tile and the split of K with which `gemms` GEMMs of M x N over all windows take the least time on the
// core with the most tiles. Tries to fill the cores once to four times, also with a half, a quarter, and so on of these
// splits, which store fewer partial sums. Times are counted in multiply-adds, as in matmul.
inline ConvWeightChoice choose_weight_tile(uint64_t M, uint64_t N, uint64_t gemms, uint64_t windows,
                                           size_t element_size) {
  constexpr uint64_t kAlignment = 64;
  constexpr int kMaxWaves = 4;
  const Tuning& tuned = runtime::tuning();
  const double cores = conv_cores();
  ConvWeightChoice best;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < std::size(kConvWeightTiles); ++i) {
    const ConvWeightTile& t = kConvWeightTiles[i];
    const double speed =
        element_size == 4 ? tuned.matmul_128x128_f32 * t.scale_f32 : tuned.*t.speed_16bit * t.scale_16bit;
    if (speed == 0) continue;
    const double tiles = double(tile_count(M, N, gemms, t.M, t.N));
    for (int waves = 1; waves <= kMaxWaves; ++waves)
      for (auto splits = std::max<uint64_t>(uint64_t(waves * cores / tiles), 1); splits > 0; splits /= 2) {
        const uint64_t k = ceil_div(ceil_div(windows, splits), kAlignment) * kAlignment, used = ceil_div(windows, k);
        const double macs = std::ceil(tiles * double(used) / cores) * t.M * t.N * (double(k) + tuned.matmul_tile_ends);
        const double time = macs / speed + tuned.matmul_partial * double(used * gemms * M * N) / cores;
        if (time < least) least = time, best = {i, used, k};
      }
  }
  return best;
}

// The simdgroup kernels pad a group's source channels to 16-byte vectors and its outputs to tiles.
inline double padded_macs(double macs, int64_t outputs, int64_t channels, double element_size) {
  const double vec = 16 / element_size, rows = std::max(double(outputs), double(kTile64));
  return macs * std::ceil(double(channels) / vec) * vec / double(channels) * rows / double(outputs);
}
inline double simdgroup_gemm_time(double macs, int64_t outputs, int64_t channels, double element_size) {
  const Tuning& tuned = runtime::tuning();
  const double rate = element_size == 4 ? tuned.conv_simdgroup_rate_f32 : tuned.conv_simdgroup_rate_16bit;
  return 10 + padded_macs(macs, outputs, channels, element_size) / (rate * conv_cores());
}
// A strided transposed convolution computes columns in float32 with a GEMM and sums them (col2im.h). The columns take
// three times as long as a copy of them: 298 us for 2x2 taps and 2 ms for 7x7 taps of ResNet-50's first layer, on an
// H100 and an H200.
inline double simdgroup_columns_time(double macs, int64_t outputs, int64_t channels, int64_t taps,
                                     double element_size) {
  return simdgroup_gemm_time(macs, outputs * taps, channels, element_size) + copy_time(3 * 8 * macs / double(channels));
}
// Returns how long a convolution takes, or a transposed convolution if `backward` is true, with these outputs and
// channels per group.
inline double simdgroup_time(double macs, int64_t outputs, int64_t channels, const ConvWindow& w, bool backward,
                             double element_size) {
  if (!backward || w.stride[0] * w.stride[1] * w.stride[2] == 1)
    return simdgroup_gemm_time(macs, outputs, channels, element_size);
  return simdgroup_columns_time(macs, outputs, channels, volume(w.taps), element_size);
}
// A weight gradient also loads the output gradient's positions.
inline double simdgroup_weight_time(double macs, int64_t outputs, int64_t channels, double positions,
                                    double element_size) {
  const bool is_float = element_size == 4;
  const Tuning& tuned = runtime::tuning();
  const double rate = is_float ? tuned.conv_simdgroup_weight_rate_f32 : tuned.conv_simdgroup_weight_rate_16bit;
  return 15 + (padded_macs(macs, outputs, channels, element_size) / rate + positions * (is_float ? 0.25 : 0.1)) /
                  conv_cores();
}
// Each step of a weight gradient is a split-K GEMM of O x positions x K, in tiles of at least 64 x 128. One launch
// computes all steps.
inline double weight_gradient_time(int64_t O, int64_t K, double positions, double steps, double element_size) {
  const double macs = double(ceil_div(uint64_t(O), 64) * 64) * double(ceil_div(uint64_t(K), 128) * 128) * positions;
  const Tuning& tuned = runtime::tuning();
  const double speed = element_size == 4 ? tuned.conv_weight_f32 : tuned.conv_weight_16bit;
  return 15 + macs * steps / (tuned.conv_rate * speed * conv_cores());
}
// A GEMM on the operands themselves needs no copies, so it is faster unless it is small.
inline bool pointwise_is_faster(int64_t out_channels, int64_t channels, int64_t outputs) {
  const Tuning& tuned = runtime::tuning();
  return double(std::min(out_channels, channels)) >= tuned.conv_pointwise_channels &&
         double(outputs) >= tuned.conv_pointwise_outputs;
}

}  // namespace mpsx::ops
