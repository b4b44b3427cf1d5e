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

// How an operation uses shared memory: stages of raw tiles of both operands, and split tiles of B.
template <matmul2d_descriptor D>
struct tf32_memory {
  static constexpr int kDepth = 32;  // steps of k in a tile
  typedef float_tile<D.m, !D.transpose_left> left;
  typedef float_tile<D.n, D.transpose_right> right;
  static constexpr unsigned kSplitBytes = D.n * 128, kStageBytes = left::kBytes + right::kBytes, kWhole = 226 * 1024;
  static constexpr int kSplits = 3, kMaxStages = 3;
  static constexpr unsigned kMaps = kSplits * 2 * kSplitBytes, kBarriers = kMaps + 256,
                            kFirstStage = (kBarriers + 8 * (kMaxStages + 2 * kSplits) + 16 + 1023) / 1024 * 1024;
  static constexpr int kStages = kFirstStage + kMaxStages * kStageBytes <= kWhole ? kMaxStages : kMaxStages - 1;
  static constexpr unsigned kBytes = reserved_bytes(kFirstStage + kStages * kStageBytes);

  static MPSX_FN unsigned full(unsigned memory, unsigned tile) { return memory + kBarriers + tile % kStages * 8; }
  static MPSX_FN unsigned ready(unsigned memory, unsigned tile) {
    return memory + kBarriers + (kMaxStages + tile % kSplits) * 8;
  }
  static MPSX_FN unsigned used(unsigned memory, unsigned tile) {
    return memory + kBarriers + (kMaxStages + kSplits + tile % kSplits) * 8;
  }
  static MPSX_FN unsigned slots(unsigned memory) { return memory + kBarriers + 8 * (kMaxStages + 2 * kSplits); }
  static MPSX_FN unsigned raw_tile(unsigned memory, unsigned tile) {
    return memory + kFirstStage + tile % kStages * kStageBytes;
  }
  static MPSX_FN unsigned split_tile(unsigned memory, unsigned tile) {
    return memory + tile % kSplits * 2 * kSplitBytes;
  }
};

template <matmul2d_descriptor D, class Scope>
struct tf32_multiplier : tf32_memory<D> {
  typedef tf32_memory<D> shape;
  typedef typename shape::left left_tile;
  typedef typename shape::right right_tile;
  using shape::full, shape::ready, shape::used, shape::raw_tile, shape::split_tile, shape::kStages, shape::kSplits;
  static constexpr int kThreads = scope_size<Scope>::threads, kWarps = kThreads / 32, kSums = D.n / 2;
  static constexpr bool kTransposeA = D.transpose_left, kTransposeB = D.transpose_right, kExact = !D.relaxed_precision;
  static constexpr bool kOwnsProcessor = owns_processor(shape::kBytes);
  static constexpr int kChunks = D.n * 8 / kThreads;  // number of 16-byte chunks that each thread splits

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
        v = load_shared4(right_tile::address(raw, n, c * 4));
      } else {  // each warp transposes a block of 32 columns and 4 steps of k
        const unsigned x = unsigned(thread / 32 + i * kWarps), lane = unsigned(thread) & 31u;
        n = x / 8 * 32 + lane, c = x % 8;
        const unsigned from = raw + (x / 8 * 32 + c * 4) * right_tile::kPitch + lane % 4 * 4;
#pragma unroll
        for (unsigned k = 0; k < 4; ++k)
          v[k] = load_shared(from + k * right_tile::kPitch + right_tile::chunk_offset(c * 4 + k, lane / 4));
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
      if constexpr (kExact) store_shared(at + shape::kSplitBytes, low);
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
        const unsigned at =
            kTransposeA ? left_tile::address(raw, r / 32 * 32 + kk, r % 32) : left_tile::address(raw, r, kk);
        split_tf32(load_shared(at), high[k][i], low[k][i]);
      }
  }

  // Prepares one third of a tile. The caller alternates the three parts with wgmma instructions, because a warp stalls
  // while the tensor core's queue is full.
  template <int PART>
  static MPSX_FN void prepare(unsigned memory, unsigned tile, int thread, unsigned (&high)[4][4],
                              unsigned (&low)[4][4]) {
    unsigned raw = raw_tile(memory, tile), to = split_tile(memory, tile);
    // Hides how the addresses depend on `tile`. LLVM would compute each address from it, instead of adding constants.
    __asm__("" : "+r"(raw), "+r"(to));
    if constexpr (PART == 0) {
      mbarrier_wait(full(memory, tile), tile / kStages & 1);
      if (tile >= unsigned(kSplits)) mbarrier_wait(used(memory, tile), (tile / kSplits - 1) & 1);
      split_right<0, kChunks / 2>(raw + left_tile::kBytes, to, thread);
    } else if constexpr (PART == 1) {
      split_right<kChunks / 2, kChunks>(raw + left_tile::kBytes, to, thread);
    } else {
      load_left(raw, thread, high, low);
      fence_async_proxy();
      __nvvm_bar_warp_sync(~0u);
      if (thread % 32 == 0) mbarrier_arrive(ready(memory, tile));
    }
  }

  // Waits until all threads have finished their copies, except for those of the last PENDING tiles.
  template <int PENDING>
  static MPSX_FN void wait_for_copies(bool copied) {
    if (__builtin_expect(!copied, true)) return;
    copy_async_wait<PENDING>();
    __syncthreads();
  }

  // `walk` visits the tiles to load. TMA loads those of an operand that it can read, and all threads copy the others.
  template <class A, class B, class Walk>
  static MPSX_FN void run(const A& left, const B& right, Walk walk, float (&sums)[kSums], unsigned memory, int thread,
                          unsigned tiles) {
    bool copied_left = false, copied_right = false;
    if constexpr (may_copy<Walk>) copied_left = !tma_can_read(left), copied_right = !tma_can_read(right);
    const bool copied = __builtin_expect(copied_left || copied_right, false);
    const int lane = thread % 32, warp = warp_uniform(thread / 32);
    const unsigned slots = shape::slots(memory);
    unsigned slot = 0;
    if (warp < 2) {
      if (lane == 0) slot = take_map_slot(kOwnsProcessor);
      slot = warp_uniform(slot);
      char* const to = map_slot(slot) + warp * 128;
      if (warp == 0) {
        if constexpr (may_copy<Walk>)
          if (copied_left && lane == 0) left_tile::describe(memory + shape::kMaps, left);
        if (!copied_left) write_map(memory + shape::kMaps, to, left_tile::map(left));
      } else {
        if constexpr (may_copy<Walk>)
          if (copied_right && lane == 0) right_tile::describe(memory + shape::kMaps + 128, right);
        if (!copied_right) write_map(memory + shape::kMaps + 128, to, right_tile::map(right));
      }
      if (lane == 0) store_shared(slots + unsigned(warp) * 4, slot);
    }
    if (warp == 2) {
      if (lane == 0) {
        for (unsigned i = 0; i < unsigned(kStages); ++i) mbarrier_init(full(memory, i), 1);
        for (unsigned i = 0; i < unsigned(kSplits); ++i)
          mbarrier_init(ready(memory, i), kWarps), mbarrier_init(used(memory, i), kWarps);
        fence_mbarrier_init();
        fence_async_proxy();
      }
      __nvvm_bar_warp_sync(~0u);
    }
    __syncthreads();
    const char *left_map = nullptr, *right_map = nullptr;
    if (warp == 0) {
      left_map = map_slot(slot);
      right_map = map_slot(warp_uniform(load_shared(slots + 4))) + 128;
      acquire_map(left_map), acquire_map(right_map);
    }
    // All copies of a tile belong to one cp.async group. After the last tile, the groups are empty.
    const auto load_tile = [&](unsigned tile) __attribute__((always_inline)) {
      const unsigned to = raw_tile(memory, tile), barrier = full(memory, tile);
      if (tile < tiles && warp == 0) {
        mbarrier_expect(barrier, (copied_left ? 0 : left_tile::kBytes) + (copied_right ? 0 : right_tile::kBytes));
        if (!copied_left) walk.template load_left<left_tile>(to, left_map, barrier);
        if (!copied_right) walk.template load_right<right_tile>(to + left_tile::kBytes, right_map, barrier);
      }
      walk.next();
      if constexpr (may_copy<Walk>) {
        if (__builtin_expect(!copied, true)) return;
        const int k = int(tile) * shape::kDepth;
        const unsigned description = memory + shape::kMaps;
        if (tile < tiles && copied_left) left_tile::template copy<kThreads>(to, description, k, thread);
        if (tile < tiles && copied_right)
          right_tile::template copy<kThreads>(to + left_tile::kBytes, description + 128, k, thread);
        copy_async_commit();
      }
    };
#pragma unroll 1
    for (unsigned t = 0; t < unsigned(kStages); ++t) load_tile(t);
    unsigned high[4][4], low[4][4];
    float block[kSums];
    wait_for_copies<kStages - 1>(copied);
    prepare<0>(memory, 0, thread, high, low);
    prepare<1>(memory, 0, thread, high, low);
    prepare<2>(memory, 0, thread, high, low);
#pragma unroll 1
    for (unsigned t = 0; t < tiles; ++t) {
      wait_for_copies<kStages - 2>(copied);  // for tile t + 1
      mbarrier_wait(ready(memory, t), t / kSplits & 1);
      const unsigned b = split_tile(memory, t);
      const unsigned long b_high = matrix_descriptor(b, 16, 1024),
                          b_low = matrix_descriptor(b + shape::kSplitBytes, 16, 1024);
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
    if (!kOwnsProcessor && warp < 2 && lane == 0) release_map_slot(slot);
    if (thread == 64) {
      for (unsigned i = 0; i < unsigned(kStages); ++i) mbarrier_invalidate(full(memory, i));
      for (unsigned i = 0; i < unsigned(kSplits); ++i)
        mbarrier_invalidate(ready(memory, i)), mbarrier_invalidate(used(memory, i));
    }
  }
};

// Returns an element of a left operand, whose row 0 is at `origin`.
template <bool TRANSPOSED, class A, class Origin>
MPSX_FN float left_element(const A& left, const Origin& origin, int row, int k) {
  if constexpr (is_tensor_v<A>) {
    const tensor_reader<A> a{left};
    return TRANSPOSED ? a.get(k, origin + row) : a.get(origin + row, k);
  } else {
    return left.element(origin, unsigned(row), unsigned(k));
  }
}

// Recomputes every NaN in the result from the original floats, because splitting an infinity produces NaN. `start`
// contains the initial values of the accumulators.
template <matmul2d_descriptor D, class L, class A, class B, class Steps>
MPSX_FN void recompute_nan(const A& left, const B& right, const Steps& steps, int thread,
                           const float (&start)[L::kCapacity], float (&sums)[L::kCapacity]) {
  static_assert(L::kCapacity <= 64, "a bit per element");
  unsigned long nan = 0;
#pragma unroll
  for (int i = 0; i < L::kCapacity; ++i) nan |= (unsigned long)(sums[i] != sums[i]) << i;
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
      const auto origin = steps.left_row(step);
      const int n = column + steps.right_row(step), first = steps.right_column(step);
#pragma unroll 1
      for (int k = 0; k < steps.depth(); ++k)
        sum = __builtin_fmaf(left_element<D.transpose_left>(left, origin, row, k),
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
    typedef typename destination_layout<D, Scope>::type L;
    return is_float_type<typename A::value_type> && is_float_type<typename B::value_type> && L::kWarpColumns == 1 &&
           D.m == 16 * scope_size<Scope>::simdgroups && D.n <= 128 && is_wgmma_width(D.n) &&
           D.n * 8 % scope_size<Scope>::threads == 0 && has_whole_tiles<D>(tf32_memory<D>::kDepth) &&
           tf32_memory<D>::kBytes <= 226 * 1024;
  }
}

// If there are several products, TMA must be able to read the operands.
template <matmul2d_descriptor D, class Scope, class A, class B, class Steps, int N>
MPSX_FN void tf32_warpgroup_multiply(const A& left, const B& right, const Steps& steps, int thread, float (&sums)[N]) {
  typedef tf32_multiplier<D, Scope> M;
  typedef typename destination_layout<D, Scope>::type L;
  const unsigned memory = staging_memory<Scope, M::kBytes>();
  typedef tile_walk<Steps, M::kDepth> Walk;
  const int tiles = Walk::tiles(steps);
  if (tiles <= 0) return;
  float start[N];
#pragma unroll
  for (int i = 0; i < N; ++i) start[i] = sums[i];
  M::run(left, right, Walk(steps), sums, memory, thread, unsigned(tiles));
  recompute_nan<D, L>(left, right, steps, thread, start, sums);
}
}  // namespace mpsx
