// The pipeline of multiply_tiles(): TMA loads the tiles of both operands while wgmma multiplies earlier ones.
#pragma once

namespace mpsx {
// All threads of the scope hold the pipeline. Warp 0 requests the tiles of A, and warp 1 those of B, in the order of
// `Walk`. Each stage of the pipeline has two mbarriers, which say whether it is full or empty.
// Unlike warpgroup_multiplier::run(), the pipeline goes on from one output tile to the next.
template <class M, class Walk>
class tile_pipeline {
  typedef typename M::shape shape;

 public:
  // Starts loading the first of `tiles` tiles.
  template <class Map>
  MPSX_FN tile_pipeline(const Map& left, const Map& right, const Walk& walk, unsigned memory, unsigned stages,
                        int thread, int tiles)
      : walk_(walk),
        memory_(memory),
        stages_(stages),
        thread_(thread),
        warp_(warp_uniform(thread / 32)),
        loads_(tiles) {
    map_ = M::open_maps(memory, thread, left, right, slot_, [&]() {
      for (unsigned i = 0; i < stages; ++i) {
        mbarrier_init(full(i), 2);
        mbarrier_init(empty(i), unsigned(shape::kThreads) / 32);
      }
    });
    if (shape::kOwnsProcessor) let_next_kernel_start();
    if (warp_ < 2)
      for (unsigned i = 0; i < stages && loads_ > 0; ++i) load(i);
  }

  // Computes the product of the next `tiles` tiles.
  MPSX_FN void multiply(float (&sums)[M::kBlocks][M::kSums], int tiles) {
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
      mbarrier_wait(full(next_), parity_);
      M::multiply_tile(sums, address(next_), address(next_) + M::left_tile::kBytes, thread_, t > 0);
      wgmma_wait<1>();
      if (t > 0) refill_last();
      last_ = next_;
      if (++next_ == stages_) next_ = 0, parity_ ^= 1;
    }
    wgmma_wait<0>();
    M::hold(sums);
    refill_last();
  }

  MPSX_FN void close() {
    __syncthreads();
    if (!shape::kOwnsProcessor && warp_ < 2 && lane() == 0) release_map_slot(slot_);
    if (thread_ == 64)
      for (unsigned i = 0; i < stages_; ++i) mbarrier_invalidate(full(i)), mbarrier_invalidate(empty(i));
  }

 private:
  MPSX_FN int lane() const { return thread_ % 32; }
  MPSX_FN unsigned full(unsigned i) const { return M::full(memory_, i); }
  MPSX_FN unsigned empty(unsigned i) const { return M::empty(memory_, i); }
  MPSX_FN unsigned address(unsigned i) const { return M::stage_address(memory_, i); }
  MPSX_FN void load(unsigned i) {
    M::load_operand(warp_, memory_, map_, i, walk_);
    --loads_;
  }
  // Fills the previous tile's stage again. wgmma must have finished reading the tile.
  MPSX_FN void refill_last() {
    if (lane() == 0) mbarrier_arrive(empty(last_));
    __nvvm_bar_warp_sync(~0u);
    if (warp_ < 2 && loads_ > 0) {
      mbarrier_wait(empty(last_), last_ > next_ ? parity_ ^ 1 : parity_);
      load(last_);
    }
  }

  Walk walk_;
  const unsigned memory_, stages_;
  const int thread_, warp_;
  const char* map_;
  unsigned slot_ = 0, next_ = 0, last_ = 0;  // slot of the maps; stages of the next and of the previous tile
  unsigned parity_ = 0;                      // of the mbarriers of stage next_
  int loads_;                                // tiles that are not requested yet
};
}  // namespace mpsx
