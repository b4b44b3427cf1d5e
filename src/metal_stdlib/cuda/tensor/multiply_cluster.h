// multiply_cluster() of metal/lib/multiply_cluster.h: TMA multicasts tiles of the operands to the threadgroups of a
// thread block cluster.
#pragma once

namespace mpsx {
#ifdef MPSX_SM90
// A pipeline of tiles as in warpgroup_multiplier::run(), in every threadgroup of the cluster. A threadgroup loads
// 1 / COLUMNS of its tile of A for its row of the cluster, and 1 / ROWS of its tile of B for its column. It may load a
// stage when all threadgroups in its row and column have emptied that stage. A warp that does nothing else waits for
// this. If the warps that multiply did, clusters would not be faster than single threadgroups.
template <class M, class Position>
class cluster_pipeline {
  typedef typename M::shape shape;
  static constexpr auto D = M::kDescriptor;
  static constexpr int kRows = int(Position::rows), kColumns = int(Position::columns), kPeers = kRows + kColumns - 1;
  static constexpr unsigned kWarps = unsigned(shape::kThreads) / 32, kWarpgroups = kWarps / 4;
  static constexpr unsigned kStages = (shape::kWhole - shape::kFirstStage) / shape::kStageBytes;

 public:
  // So much shared memory keeps other threadgroups off the multiprocessor, and the slot for tensor maps need not be
  // claimed.
  static constexpr unsigned kBytes = reserved_bytes(shape::kFirstStage + kStages * shape::kStageBytes),
                            kLoadingThreads = 32;

  template <class A, class B>
  MPSX_FN cluster_pipeline(const A& left, const B& right, const Position& position, unsigned memory, int thread)
      : memory_(memory),
        thread_(thread),
        warp_(warp_uniform(thread / 32)),
        row_(int(position.rank) % kRows),
        column_(int(position.rank) / kRows) {
    static_assert(owns_processor(kBytes), "no other threadgroup uses the slot");
    maps_ = map_slot(take_map_slot(true));
    if (warp_ < 2) {
      const unsigned map = memory + shape::kMaps + unsigned(warp_) * 128;
      build_map(map, warp_ == 0 ? left_part::map(left) : right_part::map(right));
      publish_map(map, maps_ + warp_ * 128);
    } else if (warp_ == 2) {
      if (lane() == 0) {
        for (unsigned i = 0; i < kStages; ++i) {
          mbarrier_init(full(i), 1);
          mbarrier_init(empty(i), kWarpgroups * kPeers);
        }
        fence_mbarrier_init();
        fence_async_proxy();
      }
      __nvvm_bar_warp_sync(~0u);
    }
    __syncthreads();
    cluster_arrive();
    cluster_wait();  // for the barriers of the other threadgroups
    wait_for_previous_kernel();
    let_next_kernel_start();
  }

  // Whether this thread calls load() rather than multiply() and close().
  MPSX_FN bool loads() const { return warp_ >= int(kWarps); }

  // Loads `tiles` tiles, from step k on.
  MPSX_FN void load(const Position& position, int k, int tiles) {
    acquire_map(maps_);
    acquire_map(maps_ + 128);
    const auto tile = position.tile();
    const multicast<kColumns> row_peers = {(unsigned short)(every_bit<kColumns, kRows>() << row_)};
    const multicast<kRows> column_peers = {(unsigned short)(every_bit<kRows, 1>() << column_ * kRows)};
    unsigned i = 0, parity = 1;  // stage, and parity of its barrier; the first wait for a new barrier succeeds
#  pragma unroll 1
    for (int t = 0; t < tiles; ++t, k += 64) {
      mbarrier_wait(empty(i), parity);
      const unsigned left = M::stage_address(memory_, i), right = left + M::left_tile::kBytes;
      mbarrier_expect(full(i), shape::kStageBytes);
      left_part::load(left, maps_, int(tile.m), k, column_, full(i), row_peers);
      right_part::load(right, maps_ + 128, int(tile.n), k, row_, full(i), column_peers);
      if (++i == kStages) i = 0, parity ^= 1;
    }
    cluster_arrive();
    cluster_wait();
  }

  // Computes the product of `tiles` tiles.
  MPSX_FN void multiply(float (&sums)[M::kBlocks][M::kSums], int tiles) {
    // Lane l of one warp signals threadgroup l of the row and column when the warpgroup has emptied a stage.
    // wgmma_wait() returns after the operations of the whole warpgroup (PTX ISA, wgmma.commit_group).
    const bool signals = lane() < kPeers && lane() % 4 == warp_ % 4;
    const int other = lane() - kRows;
    const int peer_row = lane() < kRows ? lane() : row_;
    const int peer_column = lane() < kRows ? column_ : other + (other >= column_);
    const unsigned peer = signals ? peer_address(empty(0), unsigned(peer_row + peer_column * kRows)) : 0;
    unsigned i = 0, last = 0, parity = 0;  // stage of this and of the previous tile; parity of the mbarriers
#  pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
      mbarrier_wait(full(i), parity);
      const unsigned stage = M::stage_address(memory_, i);
      M::multiply_tile(sums, stage, stage + M::left_tile::kBytes, thread_, t > 0);
      wgmma_wait<1>();
      if (t > 0 && signals) mbarrier_arrive_at(peer + last * 16);  // wgmma has read the previous tile
      __nvvm_bar_warp_sync(~0u);
      last = i;
      if (++i == kStages) i = 0, parity ^= 1;
    }
    wgmma_wait<0>();
    M::hold(sums);
    cluster_arrive_release();  // so that no arrival at another threadgroup's mbarrier comes after that one's end
  }
  // Waits until no other threadgroup accesses this one's memory.
  MPSX_FN void close() { cluster_wait(); }

 private:
  typedef typename M::left_tile::template part<kColumns> left_part;
  typedef typename M::right_tile::template part<kRows> right_part;

  MPSX_FN int lane() const { return thread_ % 32; }
  MPSX_FN unsigned full(unsigned i) const { return memory_ + shape::kBarriers + i * 16; }
  MPSX_FN unsigned empty(unsigned i) const { return full(i) + 8; }
  // Returns COUNT bits that are STEP bits apart.
  template <int COUNT, int STEP>
  static constexpr unsigned every_bit() {
    unsigned bits = 0;
    for (int i = 0; i < COUNT; ++i) bits |= 1u << i * STEP;
    return bits;
  }

  const unsigned memory_;
  const int thread_, warp_, row_, column_;
  char* maps_;
};

template <class Gemm, class Position, class Epilogue>
MPSX_FN void warpgroup_multiply_cluster(const Gemm& gemm, const Position& position, const Epilogue& epilogue) {
  typedef typename Gemm::Multiply Multiply;
  typedef decltype(gemm.left()) Left;
  typedef decltype(gemm.right()) Right;
  typedef warpgroup_multiplier<Multiply::descriptor, typename Multiply::scope, typename Left::value_type> M;
  typedef cluster_pipeline<M, Position> Pipeline;
  declare_cluster<Position::size, Pipeline::kLoadingThreads>();
  const unsigned memory = staging_memory<typename Multiply::scope, Pipeline::kBytes>();
  const int tiles = (int(gemm.k_end) - int(gemm.k_begin) + 63) / 64;
  Pipeline pipeline(gemm.left(), gemm.right(), position, memory, int(__nvvm_read_ptx_sreg_tid_x()));
  if (pipeline.loads()) {
    pipeline.load(position, int(gemm.k_begin), tiles);
    return;
  }
  float block[M::kBlocks][M::kSums] = {};
  pipeline.multiply(block, tiles);
  if (gemm.has(position.tile())) {
    auto sums = Multiply().template get_destination_cooperative_tensor<Left, Right, float>();
#  pragma unroll
    for (int e = 0; e < M::kBlocks * M::kSums; ++e) sums[e] = block[e / M::kSums][e % M::kSums];
    epilogue.store(sums, position.tile());
  }
  pipeline.close();
}
#endif

template <class Gemm, class Position, class Epilogue>
MPSX_FN void multiply_cluster(const Gemm& gemm, const Position& position, const Epilogue& epilogue) {
#ifdef MPSX_SM90
  typedef typename Gemm::Multiply Multiply;
  if constexpr (uses_warpgroups<Multiply::descriptor, typename Multiply::scope, decltype(gemm.left()),
                                decltype(gemm.right())>()) {
    warpgroup_multiply_cluster(gemm, position, epilogue);
    return;
  }
#endif
  multiply_cluster_apart(gemm, position, epilogue);
}
}  // namespace mpsx
