#include "ops/matmul/tensor_tier.h"

#include <ATen/Context.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/device.h"
#include "runtime/tier.h"
#include "runtime/tuning.h"

namespace mpsx::ops {
namespace {

using runtime::Tuning;

// A tile size for which there are kernels, and its rates of multiply-adds in a long loop over K.
struct Tile {
  const char* name;
  uint32_t M, N, threads;
  double Tuning::*speed_16bit, Tuning::*speed_f32;
};
constexpr Tile kTiles[] = {
    {"256x192", 256, 192, 512, &Tuning::matmul_256x192_16bit, &Tuning::matmul_256x192_f32},
    {"192x256", 192, 256, 384, &Tuning::matmul_192x256_16bit, &Tuning::matmul_192x256_f32},
    {"128x256", 128, 256, 256, &Tuning::matmul_128x256_16bit, &Tuning::matmul_128x256_f32},
    {"128x192", 128, 192, 256, &Tuning::matmul_128x192_16bit, &Tuning::matmul_128x192_f32},
    {"128x128", 128, 128, 256, &Tuning::matmul_128x128_16bit, &Tuning::matmul_128x128_f32},
    {"64x128", 64, 128, 128, &Tuning::matmul_64x128_16bit, &Tuning::matmul_64x128_f32},
    {"64x64", 64, 64, 64, &Tuning::matmul_64x64_16bit, &Tuning::matmul_64x64_f32},
};
constexpr size_t kTileCount = std::size(kTiles);
constexpr size_t k128x128 = kTileCount - 3, k64x128 = kTileCount - 2, k64x64 = kTileCount - 1;

enum Variant : size_t { kPlain, kRelaxed, kActivated, kSeveral, kCluster, kVariants };
struct Form {
  Variant variant;
  bool transpose_a, transpose_b;
};

const KernelSet& kernels_of(size_t tile, const Form& form) {
  constexpr const char *kVariant[kVariants] = {"", "relaxed_", "act_", "several_", "cluster_"},
                       *kTransposition[] = {"_nn", "_nt", "_tn", "_tt"};
  static const auto* const all = [&] {
    auto* sets = new std::vector<std::unique_ptr<KernelSet>>;
    for (const Tile& t : kTiles)
      for (const char* variant : kVariant)
        for (const char* transposition : kTransposition)
          sets->push_back(
              std::make_unique<KernelSet>(std::string("matmul_tensor_") + variant + t.name + transposition));
    return sets;
  }();
  return *(*all)[(tile * kVariants + form.variant) * 4 + form.transpose_a * 2 + form.transpose_b];
}

struct Choice {
  size_t tile;
  SplitK split;
  bool in_clusters = false;
};

// Returns the number of threadgroups of a grid of clusters, for one split of K.
uint64_t cluster_threadgroups(const GemmArgs& args, uint64_t batch) {
  constexpr uint32_t kSide = 2;  // tiles, for metal/matmul/matmul_tensor.metal
  const Tile& tile = kTiles[k128x128];
  return tile_count(args.p.M, args.p.N, batch, kSide * tile.M, kSide * tile.N) * kSide * kSide;
}

// Returns the tile and the split of K for which the busiest core takes the least time. Times are counted in
// multiply-adds. `aligned`: the rows of both operands are.
std::optional<Choice> choose_by_time(const GemmArgs& args, const Form& form, Tag tag, bool aligned) {
  const Tuning& tuned = runtime::tuning();
  constexpr uint32_t kMaxSplits = 64, kAlignment = 64, kMaxWaves = 4;
  const double min_k = tag == Tag::f32 ? tuned.matmul_split_k_f32 : tuned.matmul_split_k_16bit;
  const MatmulParams& p = args.p;
  const double cores = double(runtime::target_resident_threads()) / 1024;
  std::optional<Choice> best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](size_t i, double speed, bool in_clusters) {
    const Tile& tile = kTiles[i];
    const double tiles =
        double(in_clusters ? cluster_threadgroups(args, args.batch) : tile_count(p.M, p.N, args.batch, tile.M, tile.N));
    for (uint32_t splits = 1; splits <= kMaxSplits; ++splits) {
      if (splits > 1 && (tiles * (splits - 1) >= kMaxWaves * cores || p.K < splits * min_k)) break;
      // A threadgroup of a cluster has a core to itself, so nothing overlaps the start of the next one.
      if (in_clusters && tiles * splits > cores) break;
      const uint32_t k = splits == 1 ? p.K : uint32_t(ceil_div(ceil_div(p.K, splits), kAlignment) * kAlignment);
      if (in_clusters && k < tuned.matmul_cluster_k) break;
      double time = std::ceil(tiles * splits / cores) * tile.M * tile.N * (k + tuned.matmul_tile_ends) / speed;
      if (splits > 1)
        time += tuned.matmul_reduce_launch + tuned.matmul_partial * splits * double(args.batch) * p.M * p.N / cores;
      if (time < least) least = time, best = Choice{i, {uint32_t(ceil_div(p.K, std::max(k, 1u))), k}, in_clusters};
    }
  };
  for (size_t i = 0; i < kTileCount; ++i) {
    const Tile& tile = kTiles[i];
    const double speed = tuned.*(tag == Tag::f32 ? tile.speed_f32 : tile.speed_16bit);
    if (speed == 0 || !kernels_of(i, form).has(tag)) continue;
    // With more than 256 threads, ptxas spills the accumulators where the epilogue adds c. On an H100, a layer of GPT-2
    // (4096 x 768 to 3072, bf16) takes 94 us with a bias and 37 us without.
    if (p.has_c && tile.threads > 256) continue;
    consider(i, speed, false);
  }
  const Form cluster{kCluster, form.transpose_a, form.transpose_b};
  if (aligned && form.variant == kPlain && p.K > 0 && tuned.matmul_cluster_16bit > 0 &&
      kernels_of(k128x128, cluster).has(tag))
    consider(k128x128, tuned.matmul_cluster_16bit, true);
  if (best && best->split.splits == 0) best->split.splits = 1;  // K = 0
  return best;
}

// For GPUs where small tiles are fastest.
std::optional<Choice> choose_small_tile(const GemmArgs& args, const Form& form, Tag tag) {
  const Tuning& tuned = runtime::tuning();
  const MatmulParams& p = args.p;
  const bool large = p.K >= tuned.matmul_wide_tile_k || double(p.M) * p.N >= tuned.matmul_wide_tile_outputs;
  for (const size_t tile : {large ? k64x128 : k64x64, k64x64})
    if (kernels_of(tile, form).has(tag)) return Choice{tile, {1, p.K}};
  return std::nullopt;
}

bool fits_int(const MatmulStrides& s) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return std::max(s.row, s.column) <= kMost && std::min(s.row, s.column) >= 0;
}

// Returns the number of threadgroups that run at the same time.
uint32_t resident_threadgroups(const Tile& tile) {
  const uint32_t cores = uint32_t(runtime::target_resident_threads()) / 1024;
  // Two threadgroups with small tiles share a multiprocessor (metal_stdlib/cuda/tensor/warpgroup_multiply.h).
  return cores * (tile.M * tile.N <= 128 * 128 ? 2 : 1);
}

// Returns whether TMA can load the matrices of a batch.
bool has_aligned_rows(const Tensor& t, const MatmulStrides& s) {
  constexpr int64_t kElements = 8;  // in 16 bytes
  const int64_t pitch = s.column == 1 ? s.row : s.column;
  return aligned(t) && pitch > 0 && pitch % kElements == 0 && s.batch % kElements == 0;
}

// Returns whether the matrix is stored transposed. If neither of its dimensions is contiguous, copies it.
bool make_loadable(Tensor& operand, MatmulStrides& s, uint32_t columns, uint32_t rows) {
  if (s.column == 1 || (columns == 1 && s.row != 1)) return false;
  if (s.row == 1 || rows == 1) return true;
  const bool repeats = operand.dim() == 3 && s.batch == 0;
  operand = (repeats ? operand.select(0, 0) : operand).contiguous();
  s = matmul_strides(operand);
  return false;
}

}  // namespace

bool launch_tensor_tier(GemmArgs& args) {
  if (!runtime::uses_tensor_tier()) return false;
  MatmulParams& p = args.p;
  const Tag tag = tag_of(args.out);
  if (args.from != Tag::none || args.a.scalar_type() != args.b.scalar_type() || p.has_scale || !is_float_tag(tag) ||
      !fits_int(p.a) || !fits_int(p.b) || !fits_int(p.out))
    return false;
  const Tuning& tuned = runtime::tuning();
  const auto long_k = uint32_t(tuned.matmul_tensor_long_k);
  const uint64_t splits = runtime::prefers_large_tensor_tiles() ? std::max(p.K / long_k, 1u) : 1;
  if (!runtime::forces_tensor_tier() && double(args.batch * p.M * p.N * splits) < tuned.matmul_tensor_outputs)
    return false;
  if (p.out.column != 1 && p.out.row == 1) args.transpose();
  const bool relaxed =
      tag == Tag::f32 && at::globalContext().float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST;
  const Variant variant = p.activation != kActivationNone ? kActivated : relaxed ? kRelaxed : kPlain;
  const bool transpose_a = make_loadable(args.a, p.a, p.K, p.M), transpose_b = make_loadable(args.b, p.b, p.N, p.K);
  const Form form{variant, transpose_a, transpose_b};
  const bool aligned = has_aligned_rows(args.a, p.a) && has_aligned_rows(args.b, p.b);
  const auto choice = runtime::prefers_large_tensor_tiles() ? choose_by_time(args, form, tag, aligned)
                                                            : choose_small_tile(args, form, tag);
  if (!choice) return false;
  const Tile& tile = kTiles[choice->tile];
  const Tensor partials = args.set_split_k(choice->split);
  const uint64_t tiles = tile_count(p.M, p.N, args.batch, tile.M, tile.N);
  const Form several{kSeveral, transpose_a, transpose_b};
  if (!choice->in_clusters && aligned && variant == kPlain && p.split_k == 1 && p.K > 0 &&
      tiles > resident_threadgroups(tile) && kernels_of(choice->tile, several).has(tag)) {
    p.tiles = uint32_t(tiles);
    Launch l(kernels_of(choice->tile, several).get(tag));
    l.outputs(args.out).inputs(args.a, args.b).pointer(args.c_data()).bytes(p);
    l.groups({resident_threadgroups(tile), 1, 1}, tile.threads, true);
    l.work(tiles * tile.M * tile.N * (1 + p.K / 16) / resident_threadgroups(tile)).run();
    return true;
  }
  const Form chosen{choice->in_clusters ? kCluster : variant, transpose_a, transpose_b};
  Launch l(kernels_of(choice->tile, chosen).get(tag));
  l.outputs(args.out).inputs(args.a, args.b).pointer(args.c_data()).bytes(p).outputs(partials);
  const uint64_t groups = choice->in_clusters ? cluster_threadgroups(args, 1) : tile_count(p.M, p.N, 1, tile.M, tile.N);
  l.groups({uint32_t(groups), 1, uint32_t(args.batch) * p.split_k}, tile.threads, true);
  l.work(uint64_t(tile.M) * tile.N * (1 + p.k_per_split / 16)).run();
  args.reduce_split_k(partials);
  return true;
}

}  // namespace mpsx::ops
