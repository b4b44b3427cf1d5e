// matmul2d of float operands with wgmma. Splits each float into two tf32 numbers, high and low, and computes high *
// high + high * low + low * high, which has the precision of a float product ("3xTF32" in CUTLASS). Tensor cores
// truncate when they accumulate, so a tile covers only 32 steps of k, and the sums of the tiles are added in float.
//
// Elements of A are loaded from a raw tile in shared memory and split in registers. Elements of B are split into two
// tiles in shared memory that are contiguous along k, as wgmma requires.
#pragma once

namespace mpsx {
// Sets `high` to v rounded to the 11 significant bits that tensor cores read, and `low` to the rest. Tensor cores
// truncate `low`, so half of its last used bit is added to round it.
MPSX_FN void split_tf32(unsigned v, unsigned& high, unsigned& low) {
  high = (v + 0x1000u) & 0xffffe000u;
  low = bits_of(float_of(v) - float_of(high)) + 0x1000u;
}

template <matmul2d_descriptor D, class Scope>
struct tf32_multiplier {
  typedef typename accumulator_layout<D, Scope>::type L;
  static constexpr int kThreads = scope_size<Scope>::threads, kWarps = kThreads / 32;
  static constexpr int kM = D.m, kN = D.n, kSums = kN / 2, kDepth = 32;  // sizes of a tile
  static constexpr bool kTransposeA = D.transpose_left, kTransposeB = D.transpose_right, kExact = !D.relaxed_precision;
  // Shared memory for the raw tiles of both operands and the split tiles of B.
  static constexpr unsigned kLeftBytes = kM * 128, kRightBytes = kN * 128, kStageBytes = kLeftBytes + kRightBytes;
  static constexpr int kStages = 3, kSplits = 3;
  static constexpr unsigned kSplitTiles = kStages * kStageBytes, kMaps = kSplitTiles + kSplits * 2 * kRightBytes,
                            kBarriers = kMaps + 256, kBytes = kBarriers + 8 * (kStages + 2 * kSplits) + 16;
  static constexpr bool kOwnsProcessor = kBytes > 114 * 1024;
  static constexpr int kChunks = kN * 8 / kThreads;  // number of 16-byte chunks that each thread splits

  static MPSX_FN unsigned full(unsigned memory, unsigned tile) { return memory + kBarriers + tile % kStages * 8; }
  static MPSX_FN unsigned ready(unsigned memory, unsigned tile) {
    return memory + kBarriers + (kStages + tile % kSplits) * 8;
  }
  static MPSX_FN unsigned used(unsigned memory, unsigned tile) {
    return memory + kBarriers + (kStages + kSplits + tile % kSplits) * 8;
  }
  static MPSX_FN unsigned raw_tile(unsigned memory, unsigned tile) { return memory + tile % kStages * kStageBytes; }
  static MPSX_FN unsigned split_tile(unsigned memory, unsigned tile) {
    return memory + kSplitTiles + tile % kSplits * 2 * kRightBytes;
  }

  // Each row of a raw tile has 32 floats along the operand's contiguous dimension. If that dimension is k, the tile has
  // W rows. If it is m or n, the tile has W / 32 boxes with 32 rows each, one for every step of k.
  template <bool K_MAJOR, int W, class X>
  static MPSX_FN matrix_map map(const X& source) {
    return {source.mpsx_data(),
            map_type::float32,
            {unsigned(source.get_extent(0)), unsigned(source.get_extent(1))},
            (unsigned long)(source.get_stride(1)) * 4,
            {32, unsigned(K_MAJOR ? W : 32)}};
  }
  template <bool K_MAJOR, int W>
  static MPSX_FN void load(unsigned to, const void* map, int row, int k, unsigned barrier) {
    if constexpr (K_MAJOR) {
      load_box(to, map, k, row, barrier);
    } else {
#pragma unroll
      for (int b = 0; b < W / 32; ++b) load_box(to + unsigned(b) * 4096, map, row + b * 32, k, barrier);
    }
  }
  // Fills a raw tile from a tensor with any strides. Each thread copies one float at a time.
  template <bool K_MAJOR, int W, class X>
  static MPSX_FN void copy(unsigned to, const X& source, int k, int thread, bool is_shared) {
#pragma unroll 4
    for (int i = thread; i < W * 32; i += kThreads) {
      const int row = i / 32, c = i % 32;  // row of the boxes in the raw tile, and column in that row
      const int x = K_MAJOR ? k + c : row / 32 * 32 + c, y = K_MAJOR ? row : k + row % 32;
      const bool inside = x < int(source.get_extent(0)) && y < int(source.get_extent(1));
      const float* const from =
          source.mpsx_data() +
          (inside ? long(x) * long(source.get_stride(0)) + long(y) * long(source.get_stride(1)) : 0);
      const unsigned at = to + unsigned(row) * 128 + unsigned((c / 4 ^ (row & 7)) << 4 | c % 4 * 4);
      if (is_shared)
        store_shared(at, inside ? bits_of(*from) : 0u);
      else
        __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(inside ? 4 : 0)
                         : "memory");
    }
  }

  // Splits 16-byte chunks [FIRST, LAST) of the part of B that this thread processes.
  template <int FIRST, int LAST>
  static MPSX_FN void split_right(unsigned raw, unsigned to, int thread) {
#pragma unroll
    for (int i = FIRST; i < LAST; ++i) {
      unsigned n, c;
      word4 v;
      if constexpr (kTransposeB) {
        const unsigned x = unsigned(thread + i * kThreads);
        n = x / 8, c = x % 8;
        v = load_shared4(raw + n * 128 + ((c ^ (n & 7)) << 4));
      } else {  // each warp transposes a block of 32 columns and 4 steps of k
        const unsigned x = unsigned(thread / 32 + i * kWarps), lane = unsigned(thread) & 31u;
        n = x / 8 * 32 + lane, c = x % 8;
        const unsigned from = raw + x / 8 * 4096 + c * 512 + lane % 4 * 4;
#pragma unroll
        for (unsigned k = 0; k < 4; ++k) v[k] = load_shared(from + k * 128 + ((lane / 4 ^ ((c * 4 + k) & 7)) << 4));
      }
      word4 high, low;
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        unsigned a, b;
        split_tf32(v[k], a, b);
        high[k] = a, low[k] = b;
      }
      const unsigned at = to + n * 128 + ((c ^ (n & 7)) << 4);
      store_shared(at, high);
      if constexpr (kExact) store_shared(at + kRightBytes, low);
    }
  }
  // Loads and splits this thread's elements of four 16 x 8 fragments of A.
  static MPSX_FN void load_left(unsigned raw, int thread, unsigned (&high)[4][4], unsigned (&low)[4][4]) {
    const unsigned lane = unsigned(thread) & 31u, g = lane / 4, q = lane % 4, row = unsigned(thread) / 32 * 16 + g;
#pragma unroll
    for (unsigned k = 0; k < 4; ++k)
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned r = row + i % 2 * 8, kk = k * 8 + i / 2 * 4 + q;
        const unsigned at = kTransposeA ? raw + r / 32 * 4096 + kk * 128 + ((r % 32 / 4 ^ (kk & 7)) << 4) + r % 4 * 4
                                        : raw + r * 128 + ((k * 2 + i / 2 ^ (r & 7)) << 4) + q * 4;
        split_tf32(load_shared(at), high[k][i], low[k][i]);
      }
  }

  // Prepares one third of a tile. The caller alternates the three parts with wgmma instructions, because a warp stalls
  // while the tensor core's queue is full.
  template <int PART>
  static MPSX_FN void prepare(unsigned memory, unsigned tile, int thread, unsigned (&high)[4][4],
                              unsigned (&low)[4][4]) {
    const unsigned raw = raw_tile(memory, tile), to = split_tile(memory, tile);
    if constexpr (PART == 0) {
      mbarrier_wait(full(memory, tile), tile / kStages & 1);
      if (tile >= unsigned(kSplits)) mbarrier_wait(used(memory, tile), (tile / kSplits - 1) & 1);
      split_right<0, kChunks / 2>(raw + kLeftBytes, to, thread);
    } else if constexpr (PART == 1) {
      split_right<kChunks / 2, kChunks>(raw + kLeftBytes, to, thread);
    } else {
      load_left(raw, thread, high, low);
      fence_async_proxy();
      __nvvm_bar_warp_sync(~0u);
      if (thread % 32 == 0) mbarrier_arrive(ready(memory, tile));
    }
  }

  // If there are several products, TMA must be able to read the operands.
  template <class A, class B, class Steps>
  static MPSX_FN void run(const A& left, const B& right, const Steps& steps, float (&sums)[kSums], unsigned memory,
                          int thread, unsigned tiles) {
    tile_walk<Steps, kDepth> walk(steps);  // the next tile to load
    const int lane = thread % 32, warp = thread / 32;
    const bool left_shared = __nvvm_isspacep_shared(left.mpsx_data());
    const bool right_shared = __nvvm_isspacep_shared(right.mpsx_data());
    const bool by_tma = !left_shared && !right_shared && tma_can_read(left) && tma_can_read(right);
    const unsigned slots = memory + kBarriers + 8 * (kStages + 2 * kSplits);
    unsigned slot = 0;
    if (by_tma && warp < 2) {
      if (lane == 0)
        slot = kOwnsProcessor ? unsigned(__nvvm_read_ptx_sreg_smid()) % kMapProcessors * kMapSlots : claim_map_slot();
      slot = unsigned(__nvvm_shfl_sync_idx_i32(~0u, int(slot), 0, 31));
      char* const to = map_slot(slot) + warp * 128;
      if (warp == 0)
        write_map(memory + kMaps, to, map<!kTransposeA, kM>(left));
      else
        write_map(memory + kMaps + 128, to, map<kTransposeB, kN>(right));
      if (lane == 0) store_shared(slots + unsigned(warp) * 4, slot);
    }
    if (warp == 2) {
      if (lane == 0) {
        for (unsigned i = 0; i < unsigned(kStages); ++i) mbarrier_init(full(memory, i), by_tma ? 1 : kThreads);
        for (unsigned i = 0; i < unsigned(kSplits); ++i)
          mbarrier_init(ready(memory, i), kWarps), mbarrier_init(used(memory, i), kWarps);
        fence_mbarrier_init();
        fence_async_proxy();
      }
      __nvvm_bar_warp_sync(~0u);
    }
    __syncthreads();
    const char *left_map = nullptr, *right_map = nullptr;
    if (by_tma && warp == 0) {
      left_map = map_slot(slot);
      right_map = map_slot(load_shared(slots + 4)) + 128;
      acquire_map(left_map), acquire_map(right_map);
    }
    const auto load_tile = [&](unsigned tile) __attribute__((always_inline)) {
      if (tile >= tiles) return;
      const unsigned to = raw_tile(memory, tile), barrier = full(memory, tile);
      if (by_tma) {
        if (thread == 0) {
          mbarrier_expect(barrier, kStageBytes);
          load<!kTransposeA, kM>(to, left_map, walk.left_row(), walk.left_column(), barrier);
          load<kTransposeB, kN>(to + kLeftBytes, right_map, walk.right_row(), walk.right_column(), barrier);
        }
        __nvvm_bar_warp_sync(~0u);
      } else {
        copy<!kTransposeA, kM>(to, left, walk.left_column(), thread, left_shared);
        copy<kTransposeB, kN>(to + kLeftBytes, right, walk.right_column(), thread, right_shared);
        if (left_shared || right_shared) {
          __asm__ volatile("cp.async.wait_all;" ::: "memory");
          mbarrier_arrive(barrier);
        } else {
          __asm__ volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
        }
      }
      walk.next();
    };
#pragma unroll 1
    for (unsigned t = 0; t < unsigned(kStages); ++t) load_tile(t);
    unsigned high[4][4], low[4][4];
    float block[kSums];
    prepare<0>(memory, 0, thread, high, low);
    prepare<1>(memory, 0, thread, high, low);
    prepare<2>(memory, 0, thread, high, low);
#pragma unroll 1
    for (unsigned t = 0; t < tiles; ++t) {
      mbarrier_wait(ready(memory, t), t / kSplits & 1);
      const unsigned b = split_tile(memory, t);
      const unsigned long b_high = matrix_descriptor(b, 16, 1024), b_low = matrix_descriptor(b + kRightBytes, 16, 1024);
      const bool more = t + 1 < tiles;
      wgmma_fence();
      if constexpr (kExact) {
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma_tf32(block, low[k], b_high + unsigned(k) * 2, k > 0);
      }
      if (more) prepare<0>(memory, t + 1, thread, high, low);
      if constexpr (kExact) {
#pragma unroll
        for (int k = 0; k < 4; ++k) wgmma_tf32(block, high[k], b_low + unsigned(k) * 2, 1);
      }
      if (more) prepare<1>(memory, t + 1, thread, high, low);
#pragma unroll
      for (int k = 0; k < 4; ++k) wgmma_tf32(block, high[k], b_high + unsigned(k) * 2, kExact || k > 0);
      wgmma_commit();
      load_tile(t + kStages);
      unsigned next_high[4][4], next_low[4][4];
      if (more) prepare<2>(memory, t + 1, thread, next_high, next_low);
      wgmma_wait<0>();
      wgmma_hold(block);
#pragma unroll
      for (int k = 0; k < 4; ++k) keep_operand(high[k]), keep_operand(low[k]);
      if (lane == 0) mbarrier_arrive(used(memory, t));
#pragma unroll
      for (int i = 0; i < kSums; ++i) sums[i] += block[i];
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int i = 0; i < 4; ++i) high[k][i] = next_high[k][i], low[k][i] = next_low[k][i];
    }
    __syncthreads();
    if (by_tma && !kOwnsProcessor && warp < 2 && lane == 0) release_map_slot(slot);
    if (thread == 64) {
      for (unsigned i = 0; i < unsigned(kStages); ++i) mbarrier_invalidate(full(memory, i));
      for (unsigned i = 0; i < unsigned(kSplits); ++i)
        mbarrier_invalidate(ready(memory, i)), mbarrier_invalidate(used(memory, i));
    }
  }
};

// Recomputes every NaN in the result from the original floats, because splitting an infinity produces NaN. `start`
// contains the initial values of the accumulators.
template <matmul2d_descriptor D, class L, class A, class B, class Steps>
MPSX_FN void recompute_nan(const A& left, const B& right, const Steps& steps, int thread,
                           const float (&start)[L::kCapacity], float (&sums)[L::kCapacity]) {
  static_assert(L::kCapacity <= 64, "a bit per element");
  unsigned long nan = 0;
#pragma unroll
  for (int i = 0; i < L::kCapacity; ++i) nan |= (unsigned long)(sums[i] != sums[i]) << i;
  const tensor_reader<A> a{left};
  const tensor_reader<B> b{right};
#pragma unroll 1
  for (; nan; nan &= nan - 1) {
    const int n = __builtin_ctzl(nan), row = element_row<L>(thread, n), column = element_column<L>(thread, n);
    float sum = 0;
    if constexpr (D.mpsx_accumulates()) {
#pragma unroll
      for (int i = 0; i < L::kCapacity; ++i) sum = i == n ? start[i] : sum;
    }
#pragma unroll 1
    for (int step = 0; step < steps.count(); ++step) {
      const int m = row + int(steps.left_row(step)), n = column + int(steps.right_row(step));
      const int first = int(steps.right_column(step));
#pragma unroll 1
      for (int k = 0; k < steps.depth(); ++k)
        sum = __builtin_fmaf(D.transpose_left ? a.get(k, m) : a.get(m, k),
                             D.transpose_right ? b.get(n, first + k) : b.get(first + k, n), sum);
    }
#pragma unroll  // a variable index would put the array in local memory
    for (int i = 0; i < L::kCapacity; ++i) sums[i] = i == n ? sum : sums[i];
  }
}

// Whether this implementation supports the operation. The scope must consist of complete warpgroups, and each thread
// must have enough registers for two copies of its accumulators.
template <matmul2d_descriptor D, class Scope, class A, class B>
constexpr bool uses_tf32_warpgroups() {
  if constexpr (!has_warpgroup_operands<Scope, A, B>()) {
    return false;
  } else {
    typedef typename accumulator_layout<D, Scope>::type L;
    return is_float_type<typename A::value_type> && is_float_type<typename B::value_type> && L::kWarpColumns == 1 &&
           D.m == 16 * scope_size<Scope>::simdgroups && D.n <= 128 && is_wgmma_width(D.n) &&
           D.n * 8 % scope_size<Scope>::threads == 0 && tf32_multiplier<D, Scope>::kBytes <= 226 * 1024;
  }
}

template <matmul2d_descriptor D, class Scope, class A, class B, class Steps, int N>
MPSX_FN void tf32_warpgroup_multiply(const A& left, const B& right, const Steps& steps, int thread, float (&sums)[N]) {
  typedef tf32_multiplier<D, Scope> M;
  typedef typename M::L L;
  const unsigned memory = staging_memory<Scope, M::kBytes>();
  const int tiles = tile_walk<Steps, M::kDepth>::tiles(steps);
  if (tiles <= 0) return;
  float start[N];
#pragma unroll
  for (int i = 0; i < N; ++i) start[i] = sums[i];
  M::run(left, right, steps, sums, memory, thread, unsigned(tiles));
  recompute_nan<D, L>(left, right, steps, thread, start, sums);
}
}  // namespace mpsx
