// matmul2d of 16-bit tensors with wgmma. Tiles cover 64 steps of k. TMA prefetches them if it can.
#pragma once

namespace mpsx {
// How an operation is divided among warpgroups and how it uses shared memory.
template <matmul2d_descriptor D, class Scope>
struct warpgroup_shape {
  typedef typename destination_layout<D, Scope>::type layout;
  static constexpr int kThreads = scope_size<Scope>::threads;
  static constexpr int kColumns = D.n / layout::kWarpColumns;  // columns per wgmma
  static constexpr int kSums = kColumns / 2;                   // accumulators per thread per wgmma
  typedef operand_tile<D.m, !D.transpose_left> left;
  typedef operand_tile<D.n, D.transpose_right> right;
  static constexpr unsigned kStageBytes = left::kBytes + right::kBytes;
  static constexpr unsigned kRawBytes = left::kRawBytes + right::kRawBytes;
  // The memory starts with tensor maps and barriers, and the stages of the pipeline follow. With small tiles, a
  // threadgroup uses only half of a multiprocessor's shared memory, so that a second threadgroup can run while the
  // first one starts or finishes. If the grid has no second threadgroup for the multiprocessor, the driver provides
  // kMaxBytes, which allow more stages.
  static constexpr unsigned kMaps = 0, kBarriers = 256, kFirstStage = 1024, kHalf = 113 * 1024, kWhole = 225 * 1024;
  static constexpr bool kShared = D.m * D.n <= 128 * 128 && kStageBytes * 3 < kHalf - kFirstStage;
  static constexpr unsigned fitting_stages(unsigned bytes) {
    const unsigned stages = (bytes - kFirstStage) / kStageBytes;
    return stages > 6 ? 6 : stages;
  }
  static constexpr unsigned kStages = fitting_stages(kShared ? kHalf : kWhole), kMaxStages = fitting_stages(kWhole);
  // If threads copy operands, one or two buffers of raw rows follow the stages. They do not use kMaxBytes.
  static constexpr int kRaws = kFirstStage + 2 * (kStageBytes + kRawBytes) <= (kShared ? kHalf : kWhole) ? 2 : 1;
  static constexpr unsigned kTmaBytes = kFirstStage + kStages * kStageBytes,
                            kMaxBytes = kMaxStages > kStages ? kFirstStage + kMaxStages *kStageBytes : kTmaBytes,
                            kCopyBytes = kFirstStage + 2 * kStageBytes + unsigned(kRaws) * kRawBytes,
                            kBytes = reserved_bytes(kTmaBytes > kCopyBytes ? kTmaBytes : kCopyBytes);
  static MPSX_FN unsigned stages() {
    return kMaxStages > kStages && staging_size() >= kMaxBytes ? kMaxStages : kStages;
  }
  // The number of stages next to `raw_bytes` bytes per buffer of raw rows.
  static constexpr unsigned stages_beside(unsigned raw_bytes) {
    return fitting_stages(kBytes - unsigned(kRaws) * raw_bytes);
  }
  static constexpr bool kOwnsProcessor = owns_processor(kBytes);
};

// Whether the scope consists of complete warpgroups, and both operands are tensors whose types do not say that they are
// in threadgroup memory.
template <class Scope, class A, class B>
constexpr bool has_warpgroup_operands() {
  if constexpr (scope_size<Scope>::simdgroups == 0 || scope_size<Scope>::simdgroups % 4 != 0 || !is_tensor_v<A> ||
                !is_tensor_v<B>)
    return false;
  else
    return !A::mpsx_in_threadgroup && !B::mpsx_in_threadgroup;
}

// Whether the tiles of a pipeline, which have `steps` steps of k, cover exactly the operation's K. If it is dynamic,
// they end with the operands.
template <matmul2d_descriptor D>
constexpr bool has_whole_tiles(int steps) {
  return !matmul_shape<D>::kStaticK || D.k % steps == 0;
}

// Whether wgmma supports the element types and the tile size of the operation.
template <matmul2d_descriptor D, class Scope, class A, class B>
constexpr bool uses_warpgroups() {
  if constexpr (!has_warpgroup_operands<Scope, A, B>()) {
    return false;
  } else {
    typedef typename A::value_type T;
    typedef typename destination_layout<D, Scope>::type L;
    if constexpr (!metal::is_same_v<T, typename B::value_type> || !(is_half_type<T> || is_bfloat_type<T>)) return false;
    constexpr bool kRows = L::kWarpRows % 4 == 0 && D.m % (16 * L::kWarpRows) == 0;
    constexpr bool kColumns = D.n % L::kWarpColumns == 0 && is_wgmma_width(D.n / L::kWarpColumns) &&
                              (L::kWarpColumns == 1 || D.transpose_right || D.n / L::kWarpColumns % 64 == 0);
    if constexpr (kRows && kColumns && L::kCapacity <= 192 && has_whole_tiles<D>(64))
      return warpgroup_shape<D, Scope>::kBytes <= 226 * 1024;
    else
      return false;
  }
}

template <matmul2d_descriptor D, class Scope, class T>
struct warpgroup_multiplier {
  typedef warpgroup_shape<D, Scope> shape;
  typedef typename shape::layout L;
  typedef typename shape::left left_tile;
  typedef typename shape::right right_tile;
  typedef T value_type;
  static constexpr matmul2d_descriptor kDescriptor = D;
  static constexpr int kBlocks = L::kBlockRows, kSums = shape::kSums;

  static MPSX_FN unsigned full(unsigned memory, unsigned stage) { return memory + shape::kBarriers + stage * 8; }
  static MPSX_FN unsigned empty(unsigned memory, unsigned stage) {
    return memory + shape::kBarriers + (shape::kMaxStages + stage) * 8;
  }
  static MPSX_FN unsigned stage_address(unsigned memory, unsigned stage) {
    return memory + shape::kFirstStage + stage * shape::kStageBytes;
  }

  // Starts computing sums += A B for tiles at these addresses. The caller must wait for wgmma to finish.
  static MPSX_FN void multiply_tile(float (&sums)[kBlocks][kSums], unsigned left, unsigned right, int thread, int add) {
    const int row = thread / 128 % (L::kWarpRows / 4) * 64, column = L::warp_column(thread) * shape::kColumns;
    const unsigned long b = right_tile::descriptor(right, column);
    wgmma_fence();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) {
      const unsigned long a = left_tile::descriptor(left, m * 16 * L::kWarpRows + row);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const unsigned long ak = a + unsigned(k) * left_tile::kNextK, bk = b + unsigned(k) * right_tile::kNextK;
        if constexpr (is_half_type<T>)
          wgmma_f16<D.transpose_left, !D.transpose_right>(sums[m], ak, bk, add || k);
        else
          wgmma_bf16<D.transpose_left, !D.transpose_right>(sums[m], ak, bk, add || k);
      }
    }
    wgmma_commit();
  }
  static MPSX_FN void hold(float (&sums)[kBlocks][kSums]) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) wgmma_hold(sums[m]);
  }

  // Loads the next tile of A into a stage if `warp` is 0, and of B if it is 1. If threads copy the operand (`copied`),
  // only arrives at the mbarrier.
  template <class Walk>
  static MPSX_FN void load_operand(int warp, unsigned memory, const char* map, unsigned i, Walk& walk,
                                   bool copied = false) {
    const unsigned stage = stage_address(memory, i), barrier = full(memory, i);
    if (copied) return mbarrier_expect(barrier, 0);
    if (warp == 0) {
      mbarrier_expect(barrier, left_tile::kBytes);
      walk.template load_left<left_tile>(stage, map, barrier);
    } else {
      mbarrier_expect(barrier, right_tile::kBytes);
      walk.template load_right<right_tile>(stage + left_tile::kBytes, map, barrier);
    }
    walk.next();
  }

  // Prepares loading with TMA, then waits for the previous kernel. Warp 0 writes the tensor map of A, warp 1
  // writes that of B, and warp 2 initializes the mbarriers. In warps 0 and 1, returns the map and sets `slot` to the
  // slot that contains it.
  template <class Left, class Right, class Init>
  static MPSX_FN const char* open_maps(unsigned memory, int thread, const Left& left, const Right& right,
                                       unsigned& slot, Init init_barriers) {
    const int lane = thread % 32, warp = warp_uniform(thread / 32);
    const unsigned new_map = memory + shape::kMaps + unsigned(warp) * 128;
    if (warp < 2) {
      if (lane == 0) slot = take_map_slot(shape::kOwnsProcessor);
      if (warp == 0)
        build_map(new_map, left);
      else
        build_map(new_map, right);
    } else if (warp == 2) {
      if (lane == 0) {
        init_barriers();
        fence_mbarrier_init();
        fence_async_proxy();
      }
      __nvvm_bar_warp_sync(~0u);
    }
    __syncthreads();
    char* target = nullptr;
    if (warp < 2) {
      slot = warp_uniform(slot);
      target = map_slot(slot) + warp * 128;
      publish_map(new_map, target);
      acquire_map(target);
    }
    wait_for_previous_kernel();
    return target;
  }

  // Multiplies tiles that TMA loads at the request of warp 0, for A, and of warp 1, for B, in a pipeline of `stages`
  // tiles. If TMA cannot read an operand of a single product, all threads copy its tiles. `walk` is a copy for each
  // warp, and visits the tiles to load. If `first`, the accumulators start at zero.
  template <class A, class B, class Walk>
  static MPSX_FN void run(const A& left, const B& right, Walk walk, float (&sums)[kBlocks][kSums], unsigned memory,
                          unsigned stages, int thread, int tiles, bool first) {
    const int lane = thread % 32, warp = warp_uniform(thread / 32);
    bool copied[2] = {false, false};
    unsigned raw_bytes = 0;  // of the copied rows of a tile
    if constexpr (may_copy<Walk>) {
      copied[0] = !tma_can_read(left), copied[1] = !tma_can_read(right);
      raw_bytes = (copied[0] ? left_tile::kRawBytes : 0) + (copied[1] ? right_tile::kRawBytes : 0);
      if (copied[0] || copied[1]) stages = shape::stages_beside(raw_bytes);
    }
    const bool is_copied = warp == 0 ? copied[0] : copied[1];  // the operand that this warp would load
    unsigned slot = 0;
    // The map of a copied operand is not used.
    const char* const map = open_maps(memory, thread, left_tile::map(left), right_tile::map(right), slot, [&]() {
      for (unsigned i = 0; i < stages; ++i) {
        mbarrier_init(full(memory, i), 2);
        mbarrier_init(empty(memory, i), unsigned(shape::kThreads) / 32);
      }
    });
    // If the kernel did not fill the GPU, the next one's threadgroups would be spread unevenly.
    if (shape::kOwnsProcessor && fills_gpu()) let_next_kernel_start();
    if (warp < 2)
      for (unsigned t = 0; t < stages && int(t) < tiles; ++t) load_operand(warp, memory, map, t, walk, is_copied);
    unsigned i = 0, last = 0, parity = 0;  // stage of this and of the previous tile; parity of the mbarriers
    const auto multiply_next = [&](int t) __attribute__((always_inline)) {
      mbarrier_wait(full(memory, i), parity);
      const unsigned stage = stage_address(memory, i);
      multiply_tile(sums, stage, stage + left_tile::kBytes, thread, !first || t > 0);
      wgmma_wait<1>();
      if (t > 0) {  // wgmma has finished reading the previous tile
        if (lane == 0) mbarrier_arrive(empty(memory, last));
        __nvvm_bar_warp_sync(~0u);
        if (warp < 2 && t - 1 + int(stages) < tiles) {
          mbarrier_wait(empty(memory, last), last > i ? parity ^ 1 : parity);
          load_operand(warp, memory, map, last, walk, is_copied);
        }
      }
      last = i;
      if (++i == stages) i = 0, parity ^= 1;
    };
    // If both loops shared this code, ptxas would serialize their wgmma instructions.
    const auto finish = [&]() __attribute__((always_inline)) {
      wgmma_wait<0>();
      hold(sums);
    };
    if (copied[0] || copied[1]) {
      if constexpr (may_copy<Walk>) {
        const tile_copies<shape> copies(left, right, copied, stage_address(memory, stages), raw_bytes);
        // The first kRaws iterations only copy. A separate loop for them would take 10% more compile time.
#pragma unroll 1
        for (int t = -shape::kRaws; t < tiles; ++t) {
          if (t >= 0) {
            copies.finish(t, stage_address(memory, i), thread);
            multiply_next(t);
          }
          copies.start(t + shape::kRaws, tiles, thread);
        }
        finish();
      }
    } else {
#pragma unroll 1
      for (int t = 0; t < tiles; ++t) multiply_next(t);
      finish();
    }
    __syncthreads();
    if (!shape::kOwnsProcessor && warp < 2 && lane == 0) release_map_slot(slot);
    if (thread == 64)
      for (unsigned i = 0; i < stages; ++i) mbarrier_invalidate(full(memory, i)), mbarrier_invalidate(empty(memory, i));
  }
};

// Calls f with the accumulators, as an array for each wgmma.
template <class M, int N, class F>
MPSX_FN void with_blocks(float (&sums)[N], F f) {
  static_assert(M::kBlocks * M::kSums == N, "one accumulator per element");
  f(reinterpret_cast<float(&)[M::kBlocks][M::kSums]>(sums));
}

template <matmul2d_descriptor D, class Scope, class A, class B, int N>
MPSX_FN void warpgroup_multiply(const A& left, const B& right, int thread, float (&sums)[N]) {
  typedef warpgroup_multiplier<D, Scope, typename A::value_type> M;
  const unsigned memory = staging_memory<Scope, M::shape::kBytes, M::shape::kMaxBytes>();
  const single_product product = {depth_of<D>(left, right)};
  typedef tile_walk<single_product, 64> Walk;
  const int tiles = Walk::tiles(product);
  with_blocks<M>(sums, [&](auto& block) __attribute__((always_inline)) {
    if (tiles > 0)
      M::run(left, right, Walk(product), block, memory, M::shape::stages(), thread, tiles, !D.mpsx_accumulates());
    else
      wait_for_previous_kernel();
  });
}
}  // namespace mpsx
