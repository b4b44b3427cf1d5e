// multiply_tiles() of metal/lib/multiply_tiles.h: one pipeline of loads for all tiles, and one tensor map per operand.
#pragma once

namespace mpsx {
#ifdef MPSX_SM90
// Visits the steps of k of all tiles in order.
template <class Gemm, class Tiles>
class gemm_walk {
 public:
  MPSX_FN gemm_walk(const Gemm& gemm, const Tiles& tiles) : gemm_(gemm), tiles_(tiles), index_(tiles.first) { start(); }
  template <class Tile>
  MPSX_FN void load_left(unsigned to, const char* map, unsigned barrier) const {
    Tile::load(to, map, row_, k_, gemm_.a_batch == 0 ? 0 : batch_, barrier);
  }
  template <class Tile>
  MPSX_FN void load_right(unsigned to, const char* map, unsigned barrier) const {
    Tile::load(to, map, column_, k_, gemm_.b_batch == 0 ? 0 : batch_, barrier);
  }
  MPSX_FN void next() {
    k_ += 64;
    if (k_ < int(gemm_.K)) return;
    index_ += tiles_.stride;
    if (index_ < tiles_.total) start();
  }

 private:
  MPSX_FN void start() {
    const auto at = gemm_.tile(index_);
    row_ = int(at.m), column_ = int(at.n), batch_ = int(at.batch), k_ = 0;
  }
  const Gemm& gemm_;
  const Tiles tiles_;
  unsigned index_;
  int row_, column_, batch_, k_;
};

// Describes the matrices of an operand. A stride of 0 means that they are all the same one.
template <class T>
MPSX_FN batch_map batch_of(const matrix_map& map, long stride) {
  constexpr unsigned kMost = 1u << 31;   // matrices, because all tiles are inside the batch
  if (stride == 0) return {map, 1, 16};  // TMA needs a positive stride
  return {map, kMost, (unsigned long)stride * sizeof(T)};
}

template <class Gemm, class Tiles, class Epilogue>
MPSX_FN void warpgroup_multiply_tiles(const Gemm& gemm, const Tiles& tiles, const Epilogue& epilogue) {
  typedef typename Gemm::Multiply Multiply;
  typedef decltype(gemm.left()) Left;
  typedef decltype(gemm.right()) Right;
  typedef typename Left::value_type T;
  typedef warpgroup_multiplier<Multiply::descriptor, typename Multiply::scope, T> M;
  const unsigned memory = staging_memory<typename Multiply::scope, M::shape::kBytes, M::shape::kMaxBytes>();
  const int thread = scope_thread<typename Multiply::scope>(), steps = (int(gemm.K) + 63) / 64;
  if (tiles.count() == 0) return;
  tile_pipeline<M, gemm_walk<Gemm, Tiles>> pipeline(batch_of<T>(M::left_tile::map(gemm.left()), gemm.a_batch),
                                                    batch_of<T>(M::right_tile::map(gemm.right()), gemm.b_batch),
                                                    {gemm, tiles}, memory, M::shape::stages(), thread,
                                                    steps * int(tiles.count()));
#  pragma unroll 1
  for (unsigned i = tiles.first; i < tiles.total; i += tiles.stride) {
    float block[M::kBlocks][M::kSums] = {};
    pipeline.multiply(block, steps);
    auto sums = Multiply().template get_destination_cooperative_tensor<Left, Right, float>();
#  pragma unroll
    for (int e = 0; e < M::kBlocks * M::kSums; ++e) sums[e] = block[e / M::kSums][e % M::kSums];
    epilogue.store(sums, gemm.tile(i));
  }
  pipeline.close();
}
#endif

template <class Gemm, class Tiles, class Epilogue>
MPSX_FN void multiply_tiles(const Gemm& gemm, const Tiles& tiles, const Epilogue& epilogue) {
#ifdef MPSX_SM90
  typedef typename Gemm::Multiply Multiply;
  if constexpr (uses_warpgroups<Multiply::descriptor, typename Multiply::scope, decltype(gemm.left()),
                                decltype(gemm.right())>()) {
    warpgroup_multiply_tiles(gemm, tiles, epilogue);
    return;
  }
#endif
  multiply_tiles_in_turn(gemm, tiles, epilogue);
}
}  // namespace mpsx
