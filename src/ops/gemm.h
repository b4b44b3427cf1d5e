// Launch configurations of the tiled GEMM kernels (metal/lib/gemm.h).
#pragma once

#include <algorithm>

#include "lib/gemm_params.h"
#include "ops/op.h"
#include "runtime/tier.h"
#include "runtime/tuning.h"

namespace mpsx::ops {

// Sets the grid of a batched GEMM with 64x64 or 128x128 tiles.
inline Launch& set_gemm_grid(Launch& launch, uint64_t M, uint64_t N, uint64_t batch, uint64_t K, bool tile128 = false) {
  const uint32_t tile = tile128 ? kTile128 : kTile64;
  return launch
      .groups({uint32_t(ceil_div(N, tile)), uint32_t(ceil_div(M, tile)), uint32_t(batch)},
              tile128 ? kTile128Threads : kTile64Threads, true)
      .work(tile * tile * (1 + K / 16));  // a multiply-add costs 1/16 of an elementwise operation
}

inline uint64_t tile_count(uint64_t M, uint64_t N, uint64_t batch, uint32_t tile_M, uint32_t tile_N) {
  return ceil_div(M, tile_M) * ceil_div(N, tile_N) * batch;
}
inline uint64_t gemm_threads(uint64_t M, uint64_t N, uint64_t batch) {
  return tile_count(M, N, batch, kTile64, kTile64) * kTile64Threads;
}
// Returns whether 128x128 tiles would fill the device. Only the kernels for 16-bit elements have such tiles.
inline bool prefers_tile128(uint64_t M, uint64_t N, uint64_t batch, size_t element_size) {
  return element_size == 2 && std::min(M, N) >= kTile128 &&
         double(tile_count(M, N, batch, kTile128, kTile128) * kTile128Threads) >=
             runtime::tuning().matmul_tile128_fill * double(runtime::target_resident_threads());
}

// Returns whether kernels that stage operands in threadgroup memory use matmul2d. Only the ones for 16-bit floats can.
inline bool uses_tensor_fragments(const Tensor& t) {
  return (t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16) && runtime::uses_tensor_fragments();
}

// How K is split: the number of splits, and the K extent of each split.
struct SplitK {
  uint32_t splits, k_per_split;
};
// Splits K if a grid of `threads` threads would not fill the device. Each split has at least min_k elements.
inline SplitK choose_split_k(uint64_t threads, uint32_t K, double min_k = runtime::tuning().matmul_split_k) {
  constexpr uint32_t kMaxSplits = 32, kAlignment = kTileKBytes;  // a multiple of BK for every type
  const double fill = runtime::tuning().matmul_split_fill;
  const auto wanted = uint64_t(fill * double(runtime::target_resident_threads()) / double(threads));
  const uint64_t splits = std::min<uint64_t>(wanted, std::min(K / uint32_t(min_k), kMaxSplits));
  if (splits <= 1) return {1, K};
  const uint32_t k_per_split = uint32_t(ceil_div(ceil_div(K, splits), kAlignment) * kAlignment);
  return {uint32_t(ceil_div(K, k_per_split)), k_per_split};
}

// Returns `elements`, rounded up to whole 16-byte vectors of `t`'s dtype.
inline int64_t round_up_to_vector(int64_t elements, const Tensor& t) {
  const int64_t vec = 16 / int64_t(t.element_size());
  return ceil_div(elements, vec) * vec;
}

// Returns whether kernels can load an operand in 16-byte vectors along K or along its other dimension (M or N).
inline bool is_vectorizable(const void* data, size_t element_size, int64_t mn_stride, int64_t k_stride,
                            int64_t batch_stride = 0) {
  const int64_t size = int64_t(element_size), pitch = k_stride == 1 ? mn_stride : k_stride;
  return (k_stride == 1 || mn_stride == 1) && reinterpret_cast<uintptr_t>(data) % 16 == 0 && pitch * size % 16 == 0 &&
         batch_stride * size % 16 == 0;
}

}  // namespace mpsx::ops
