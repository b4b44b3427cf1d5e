#include "ops/matmul/tensor_tier.h"

#include <ATen/Context.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "ops/elementwise/elementwise.h"
#include "runtime/device.h"
#include "runtime/tier.h"
#include "runtime/tuning.h"

namespace mpsx::ops {
namespace {

using runtime::Tuning;

struct TileShape {
  const char* name;
  uint32_t M, N, threads;
};

// A tile size for which there are kernels, and its rates of multiply-adds in a long loop over K.
struct Tile : TileShape {
  double Tuning::*speed_16bit, Tuning::*speed_f32;
};
constexpr Tile kTiles[] = {
    {{"256x192", 256, 192, 512}, &Tuning::matmul_256x192_16bit, &Tuning::matmul_256x192_f32},
    {{"192x256", 192, 256, 384}, &Tuning::matmul_192x256_16bit, &Tuning::matmul_192x256_f32},
    {{"128x256", 128, 256, 256}, &Tuning::matmul_128x256_16bit, &Tuning::matmul_128x256_f32},
    {{"128x192", 128, 192, 256}, &Tuning::matmul_128x192_16bit, &Tuning::matmul_128x192_f32},
    {{"128x128", 128, 128, 256}, &Tuning::matmul_128x128_16bit, &Tuning::matmul_128x128_f32},
    {{"128x64", 128, 64, 256}, &Tuning::matmul_64x128_16bit, &Tuning::matmul_128x64_f32},
    {{"64x128", 64, 128, 128}, &Tuning::matmul_64x128_16bit, &Tuning::matmul_64x128_f32},
    {{"64x64", 64, 64, 64}, &Tuning::matmul_64x64_16bit, &Tuning::matmul_64x64_f32},
};
constexpr size_t kTileCount = std::size(kTiles);
constexpr size_t k64x128 = kTileCount - 2, k64x64 = kTileCount - 1;

// 16-bit tiles of rows x columns threadgroups that form a thread block cluster (metal/lib/multiply_cluster.h).
struct Cluster : TileShape {
  uint32_t rows, columns;
  double Tuning::* speed;
};
constexpr Cluster kClusters[] = {
    {{"128x128", 128, 128, 256}, 2, 2, &Tuning::matmul_cluster_128x128},
    {{"64x128", 64, 128, 128}, 4, 2, &Tuning::matmul_cluster_64x128},
    {{"64x96", 64, 96, 128}, 2, 4, &Tuning::matmul_cluster_64x96},
    {{"192x96", 192, 96, 384}, 1, 2, &Tuning::matmul_cluster_192x96},
};
// Returns how many threadgroups of the cluster can run at a time. Cores are in pairs that no other cluster can use.
double resident_groups(const Cluster& cluster, double cores) {
  return cluster.rows * cluster.columns > 2 ? cores * runtime::tuning().matmul_cluster_cores : cores;
}

enum Variant : size_t { kPlain, kAligned, kRelaxed, kActivated, kSeveral, kVariants };
struct Form {
  Variant variant;
  bool transpose_a, transpose_b;
};

void add_kernels(std::vector<std::unique_ptr<KernelSet>>& to, const std::string& name) {
  for (const char* transposition : {"_nn", "_nt", "_tn", "_tt"})
    to.push_back(std::make_unique<KernelSet>("matmul_tensor_" + name + transposition));
}
const KernelSet& kernels_of(size_t tile, const Form& form) {
  static const auto* const all = [] {
    auto* sets = new std::vector<std::unique_ptr<KernelSet>>;
    for (const Tile& t : kTiles)
      for (const char* variant : {"", "aligned_", "relaxed_", "act_", "several_"})
        add_kernels(*sets, variant + std::string(t.name));
    return sets;
  }();
  return *(*all)[(tile * kVariants + form.variant) * 4 + form.transpose_a * 2 + form.transpose_b];
}
const KernelSet& cluster_kernels(size_t cluster, const Form& form) {
  static const auto* const all = [] {
    auto* sets = new std::vector<std::unique_ptr<KernelSet>>;
    for (const Cluster& c : kClusters) add_kernels(*sets, std::string("cluster_") + c.name);
    return sets;
  }();
  return *(*all)[cluster * 4 + form.transpose_a * 2 + form.transpose_b];
}

// Returns the kernels of a tile for these operands, or null. Only the plain kernels, and those of fewer than four SIMD
// groups, can load operands that are not aligned.
const KernelSet* usable_kernels(size_t i, const Form& form, Tag tag, bool aligned) {
  if (form.variant == kPlain && aligned) {
    const KernelSet& kernels = kernels_of(i, {kAligned, form.transpose_a, form.transpose_b});
    if (kernels.has(tag)) return &kernels;
  }
  const KernelSet& kernels = kernels_of(i, form);
  const bool loads_any = form.variant == kPlain || kTiles[i].threads < 128;
  return kernels.has(tag) && (aligned || loads_any) ? &kernels : nullptr;
}

struct Choice {
  TileShape tile;
  const KernelSet* kernels;
  const KernelSet* several;  // the kernels whose threadgroups compute several tiles, or null
  uint64_t threadgroups;     // for one matrix and one split of K
  SplitK split;
  bool activates;  // whether the kernels apply the activation
};
Choice single_tile(const MatmulParams& p, size_t i, const Form& form, const KernelSet* kernels, bool allows_several) {
  const Tile& tile = kTiles[i];
  const Form several{kSeveral, form.transpose_a, form.transpose_b};
  return {tile,
          kernels,
          allows_several ? &kernels_of(i, several) : nullptr,
          tile_count(p.M, p.N, 1, tile.M, tile.N),
          {1, p.K},
          form.variant == kActivated};
}
Choice cluster(const MatmulParams& p, size_t i, const Form& form) {
  const Cluster& c = kClusters[i];
  const uint64_t blocks = tile_count(p.M, p.N, 1, c.rows * c.M, c.columns * c.N);
  return {c, &cluster_kernels(i, form), nullptr, blocks * c.rows * c.columns, {1, p.K}, false};
}

// Returns the kernel and the split of K for which the busiest core takes the least time. Times are counted in
// multiply-adds. An activation is applied by the kernel, by the kernel that adds the parts of K, or separately.
// `form` describes a kernel without activation. `aligned`: TMA can load both operands, and K > 0.
std::optional<Choice> choose_by_time(const GemmArgs& args, const Form& form, Tag tag, bool aligned) {
  const Tuning& tuned = runtime::tuning();
  constexpr uint32_t kMaxSplits = 64, kAlignment = 64, kMaxWaves = 4;
  const double min_k = tag == Tag::f32 ? tuned.matmul_split_k_f32 : tuned.matmul_split_k_16bit;
  const MatmulParams& p = args.p;
  const double cores = double(runtime::target_resident_threads()) / 1024;
  // Only then can a kernel for several tiles or for clusters be used, because these load everything with TMA.
  const bool tma_only = aligned && form.variant == kPlain;
  const bool allows_several = tma_only && (!p.has_c || p.c.row == 0);  // those kernels add only equal rows
  const bool activates = p.activation != kActivationNone;
  const double outputs = double(args.batch) * p.M * p.N / cores;
  // A separate activation loads and stores each output. Its accesses are coalesced, so a byte takes about half as long
  // as a byte of a partial sum (estimated from the bandwidth of an H200).
  const double per_output = tuned.matmul_partial * double(args.out.element_size()) / 8;
  const double activation = activates ? tuned.matmul_reduce_launch + per_output * outputs : 0;
  std::optional<Choice> best;
  double least = std::numeric_limits<double>::infinity();
  const auto consider = [&](Choice choice, double speed, const Cluster* in_clusters) {
    const TileShape& tile = choice.tile;
    const double groups = double(choice.threadgroups) * double(args.batch);
    for (uint32_t splits = 1; splits <= kMaxSplits; ++splits) {
      if (splits > 1 && (groups * (splits - 1) >= kMaxWaves * cores || p.K < splits * min_k)) break;
      // A threadgroup of a cluster has a core to itself, so nothing overlaps the start of the next one.
      if (in_clusters && groups * splits > resident_groups(*in_clusters, cores)) break;
      const uint32_t k = splits == 1 ? p.K : uint32_t(ceil_div(ceil_div(p.K, splits), kAlignment) * kAlignment);
      if (in_clusters && k < tuned.matmul_cluster_k) break;
      double time = std::ceil(groups * splits / cores) * tile.M * tile.N * (k + tuned.matmul_tile_ends) / speed;
      if (splits > 1)
        time += tuned.matmul_reduce_launch + tuned.matmul_partial * splits * outputs;
      else if (!choice.activates)
        time += activation;
      if (time >= least) continue;
      least = time;
      choice.split = {uint32_t(ceil_div(p.K, std::max(k, 1u))), k};
      best = choice;
    }
  };
  const auto consider_tiles = [&](const Form& variant) {
    for (size_t i = 0; i < kTileCount; ++i) {
      const Tile& tile = kTiles[i];
      const double speed = tuned.*(tag == Tag::f32 ? tile.speed_f32 : tile.speed_16bit);
      const KernelSet* const kernels = usable_kernels(i, variant, tag, aligned);
      if (speed == 0 || !kernels) continue;
      // With more than 256 threads, ptxas spills the accumulators where the epilogue adds c. On an H100, a layer of
      // GPT-2 (4096 x 768 to 3072, bf16) takes 94 us with a bias and 37 us without.
      if (p.has_c && tile.threads > 256) continue;
      consider(single_tile(p, i, variant, kernels, allows_several && variant.variant == kPlain), speed, nullptr);
    }
  };
  consider_tiles(form);
  if (activates && form.variant == kPlain) consider_tiles({kActivated, form.transpose_a, form.transpose_b});
  for (size_t i = 0; i < std::size(kClusters) && tma_only; ++i) {
    const double speed = tuned.*kClusters[i].speed;
    if (speed > 0 && cluster_kernels(i, form).has(tag)) consider(cluster(p, i, form), speed, &kClusters[i]);
  }
  if (best && best->split.splits == 0) best->split.splits = 1;  // K = 0
  return best;
}

// For GPUs where small tiles are fastest.
std::optional<Choice> choose_small_tile(const GemmArgs& args, Form form, Tag tag) {
  const Tuning& tuned = runtime::tuning();
  const MatmulParams& p = args.p;
  if (p.activation != kActivationNone && form.variant == kPlain) form.variant = kActivated;
  const bool large = p.K >= tuned.matmul_wide_tile_k || double(p.M) * p.N >= tuned.matmul_wide_tile_outputs;
  for (const size_t tile : {large ? k64x128 : k64x64, k64x64})
    if (kernels_of(tile, form).has(tag)) return single_tile(p, tile, form, &kernels_of(tile, form), false);
  return std::nullopt;
}

bool fits_int(const MatmulStrides& s) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  return std::max(s.row, s.column) <= kMost && std::min(s.row, s.column) >= 0;
}

// Returns the number of threadgroups that run at the same time.
uint32_t resident_threadgroups(const TileShape& tile) {
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

void launch(GemmArgs& args, const Choice& choice) {
  MatmulParams& p = args.p;
  const Tag tag = tag_of(args.out);
  const TileShape& tile = choice.tile;
  const Tensor partials = args.set_split_k(choice.split);
  const uint64_t tiles = choice.threadgroups * args.batch, resident = resident_threadgroups(tile);
  if (choice.several && choice.several->has(tag) && p.split_k == 1 && tiles > resident) {
    p.tiles = uint32_t(tiles);
    Launch l(choice.several->get(tag));
    l.outputs(args.out).inputs(args.a, args.b).pointer(args.c_data()).bytes(p);
    l.groups({uint32_t(resident), 1, 1}, tile.threads, true);
    l.work(tiles * tile.M * tile.N * (1 + p.K / 16) / resident).run();
    return;
  }
  Launch l(choice.kernels->get(tag));
  l.outputs(args.out).inputs(args.a, args.b).pointer(args.c_data()).bytes(p).outputs(partials);
  l.groups({uint32_t(choice.threadgroups), 1, uint32_t(args.batch) * p.split_k}, tile.threads, true);
  l.work(uint64_t(tile.M) * tile.N * (1 + p.k_per_split / 16)).run();
  args.reduce_split_k(partials);
}

// Overwrites `out` with its activation.
void activate(const Tensor& out, uint32_t activation) {
  static const ElementwiseKernels relu("relu", 1), gelu("gelu_none", 1), gelu_tanh("gelu_tanh", 1), silu("silu", 1);
  at::TensorIterator iter = at::TensorIteratorConfig().add_output(out).add_const_input(out).build();
  const ElementwiseKernels* const kernels[] = {&relu, &gelu, &gelu_tanh, &silu};
  kernels[activation - kActivationRelu]->run(iter, tag_of(out), {});
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
  if (p.has_c && uint64_t(p.N) * uint64_t(p.c.column) > UINT32_MAX) return false;  // kernels index a row with 32 bits
  const bool relaxed =
      tag == Tag::f32 && at::globalContext().float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST;
  const bool transpose_a = make_loadable(args.a, p.a, p.K, p.M), transpose_b = make_loadable(args.b, p.b, p.N, p.K);
  const Form form{relaxed ? kRelaxed : kPlain, transpose_a, transpose_b};
  const bool aligned = p.K > 0 && has_aligned_rows(args.a, p.a) && has_aligned_rows(args.b, p.b);
  const auto choice = runtime::prefers_large_tensor_tiles() ? choose_by_time(args, form, tag, aligned)
                                                            : choose_small_tile(args, form, tag);
  if (!choice) return false;
  const uint32_t activation = p.activation;
  const bool activates = choice->activates || choice->split.splits > 1;
  if (!activates) p.activation = kActivationNone;
  launch(args, *choice);
  if (!activates && activation != kActivationNone) activate(args.out, activation);
  return true;
}

}  // namespace mpsx::ops
