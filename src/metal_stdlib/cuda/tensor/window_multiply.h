// Multiplies the steps of metal/lib/multiply_steps.h. If the rows of the left matrix overlap, as the windows of a
// convolution with stride 1 do, the tiles of all taps of a row are parts of one window, which is loaded only once.
#pragma once

namespace mpsx {
// A row of the left matrix consists of `taps` parts of 64 * n elements. Part i of a row is part 0 of the row that is i
// rows further down, so row r of the window contains part 0 of row r, part 1 of row r - 1, and so on.
template <matmul2d_descriptor D, class Scope, class T>
struct window_multiplier {
  typedef warpgroup_multiplier<D, Scope, T> multiplier;
  typedef typename multiplier::shape shape;
  typedef typename multiplier::L L;
  typedef typename multiplier::right_tile right_tile;
  static constexpr int kBlocks = multiplier::kBlocks, kSums = multiplier::kSums, kMaxTaps = 9;
  // A window has at most 264 rows, and a box at most 256.
  static constexpr unsigned kRows = unsigned(D.m) + kMaxTaps - 1, kBoxes = kRows > 256 ? 3 : 1,
                            kBoxBytes = kRows / kBoxes * 128, kWindowBytes = kRows * 128;
  // With small tiles, three threadgroups share a multiprocessor, which overlaps starting, multiplying, and storing.
  static constexpr unsigned kBudget = shape::kThreads == 128 ? 73 * 1024
                                      : shape::kShared       ? shape::kHalf
                                                             : shape::kWhole;
  static constexpr unsigned kWindows = shape::kShared ? 2 : 3, kMaxTiles = 8;
  static constexpr unsigned kFirstTile = shape::kFirstStage + kWindows * kWindowBytes;
  static constexpr unsigned kFitting = (kBudget - kFirstTile) / right_tile::kBytes;
  static constexpr unsigned kTiles = kFitting < kMaxTiles ? kFitting : kMaxTiles;
  static constexpr unsigned kEnd = kFirstTile + kTiles * right_tile::kBytes;
  // Rows that do not overlap are loaded as tiles of both matrices, in this many stages.
  static constexpr unsigned kStages = shape::fitting_stages(kBudget),
                            kStagesEnd = shape::kFirstStage + kStages * shape::kStageBytes;
  static constexpr unsigned kBytes = reserved_bytes(kEnd > kStagesEnd ? kEnd : kStagesEnd),
                            kMaxBytes = kBytes > shape::kMaxBytes ? kBytes : shape::kMaxBytes;
  static constexpr bool kOwnsProcessor = owns_processor(kBytes);
  static_assert(kOwnsProcessor == shape::kOwnsProcessor, "open_maps() claims the slot");
  static MPSX_FN unsigned stages() { return staging_size() >= kMaxBytes ? shape::kMaxStages : kStages; }
  static_assert(!D.transpose_left && D.transpose_right, "operands that are contiguous along k");
  static_assert(D.m % 64 == 0 && kRows % (8 * kBoxes) == 0, "whole patterns of the swizzle");

  // Returns the number of taps in a row of the left matrix, or 1 if its rows do not overlap in this way.
  template <class A>
  static MPSX_FN int taps(const A& left, int depth) {
    const int pitch = int(left.get_stride(1)), count = depth / pitch;
    return pitch % 64 == 0 && count * pitch == depth && count <= kMaxTaps ? count : 1;
  }

  // Each window and each tile of the right matrix has two mbarriers, which say whether it is full or empty.
  static MPSX_FN unsigned barrier(unsigned memory, unsigned i) { return memory + shape::kBarriers + i * 8; }
  static MPSX_FN unsigned full_window(unsigned memory, unsigned i) { return barrier(memory, i); }
  static MPSX_FN unsigned empty_window(unsigned memory, unsigned i) { return barrier(memory, kWindows + i); }
  static MPSX_FN unsigned full_tile(unsigned memory, unsigned i) { return barrier(memory, 2 * kWindows + i); }
  static MPSX_FN unsigned empty_tile(unsigned memory, unsigned i) { return barrier(memory, 2 * kWindows + kTiles + i); }
  static MPSX_FN unsigned window_address(unsigned memory, unsigned i) {
    return memory + shape::kFirstStage + i * kWindowBytes;
  }
  static MPSX_FN unsigned tile_address(unsigned memory, unsigned i) {
    return memory + kFirstTile + i * right_tile::kBytes;
  }

  // The next window that warp 0 loads, or the next tile that warp 1 loads: its step, tap, and first column of the tap.
  struct position {
    int step = 0, tap = 0, column = 0;
    // Warp 0 passes 1 for `taps`, because a window has all taps.
    MPSX_FN void next(int taps, int pitch) {
      if (++tap < taps) return;
      tap = 0;
      column += 64;
      if (column < pitch) return;
      column = 0;
      ++step;
    }
  };
  template <class Steps>
  static MPSX_FN void load_window(unsigned memory, unsigned i, const char* map, const Steps& steps, int pitch,
                                  position& at) {
    mbarrier_expect(full_window(memory, i), kWindowBytes);
#pragma unroll
    for (unsigned b = 0; b < kBoxes; ++b)
      load_box(window_address(memory, i) + b * kBoxBytes, map, at.column,
               int(steps.left_row(at.step)) + int(b * (kRows / kBoxes)), full_window(memory, i));
    at.next(1, pitch);
  }
  template <class Steps>
  static MPSX_FN void load_tile(unsigned memory, unsigned i, const char* map, const Steps& steps, int taps, int pitch,
                                position& at) {
    mbarrier_expect(full_tile(memory, i), right_tile::kBytes);
    right_tile::load(tile_address(memory, i), map, int(steps.right_row(at.step)),
                     int(steps.right_column(at.step)) + at.tap * pitch + at.column, full_tile(memory, i));
    at.next(taps, pitch);
  }

  template <class A, class Steps>
  static MPSX_FN void run(const A& left, const A& right, const Steps& steps, int taps, float (&sums)[kBlocks][kSums],
                          unsigned memory, int thread, int tiles) {
    const int lane = thread % 32, warp = warp_uniform(thread / 32), pitch = int(left.get_stride(1)),
              windows = tiles / taps;
    const matrix_map window_map = {left.mpsx_data(),
                                   map_type_of<T>,
                                   {unsigned(pitch), unsigned(left.get_extent(1)) + unsigned(taps) - 1},
                                   (unsigned long)pitch * sizeof(T),
                                   {64, kRows / kBoxes}};
    unsigned slot = 0;
    const char* const map = multiplier::open_maps(memory, thread, window_map, right_tile::map(right), slot, [&]() {
      for (unsigned i = 0; i < kWindows; ++i)
        mbarrier_init(full_window(memory, i), 1), mbarrier_init(empty_window(memory, i), shape::kThreads / 32);
      for (unsigned i = 0; i < kTiles; ++i)
        mbarrier_init(full_tile(memory, i), 1), mbarrier_init(empty_tile(memory, i), shape::kThreads / 32);
    });
    position at;
    if (warp == 0)
      for (unsigned i = 0; i < kWindows && int(i) < windows; ++i) load_window(memory, i, map, steps, pitch, at);
    if (warp == 1)
      for (unsigned i = 0; i < kTiles && int(i) < tiles; ++i) load_tile(memory, i, map, steps, taps, pitch, at);
    // The window and tile of this step and of the previous one, and the parities of their mbarriers.
    unsigned w = 0, i = 0, last_w = 0, last = 0, window_parity = 0, tile_parity = 0;
    int tap = 0, window = 0;
#pragma unroll 1
    for (int t = 0; t < tiles; ++t) {
      if (tap == 0) mbarrier_wait(full_window(memory, w), window_parity);
      mbarrier_wait(full_tile(memory, i), tile_parity);
      multiplier::multiply_tile(sums, window_address(memory, w) + unsigned(tap) * 128, tile_address(memory, i), thread,
                                1);
      wgmma_wait<1>();
      if (t > 0) {  // wgmma has finished reading the previous tile
        if (lane == 0) {
          mbarrier_arrive(empty_tile(memory, last));
          if (tap == 0) mbarrier_arrive(empty_window(memory, last_w));
        }
        __nvvm_bar_warp_sync(~0u);
        if (warp == 0 && tap == 0 && window - 1 + int(kWindows) < windows) {
          mbarrier_wait(empty_window(memory, last_w), last_w > w ? window_parity ^ 1 : window_parity);
          load_window(memory, last_w, map, steps, pitch, at);
        }
        if (warp == 1 && t - 1 + int(kTiles) < tiles) {
          mbarrier_wait(empty_tile(memory, last), last > i ? tile_parity ^ 1 : tile_parity);
          load_tile(memory, last, map, steps, taps, pitch, at);
        }
      }
      last = i;
      if (++i == kTiles) i = 0, tile_parity ^= 1;
      if (++tap == taps) {
        tap = 0, ++window;
        last_w = w;
        if (++w == kWindows) w = 0, window_parity ^= 1;
      }
    }
    wgmma_wait<0>();
    multiplier::hold(sums);
    __syncthreads();
    if (!kOwnsProcessor && warp < 2 && lane == 0) release_map_slot(slot);
    if (thread == 64)
      for (unsigned b = 0; b < 2 * (kWindows + kTiles); ++b) mbarrier_invalidate(barrier(memory, b));
  }
};

// Adds all products of `steps` to `sums`. TMA must be able to read the matrices.
template <matmul2d_descriptor D, class Scope, class A, class Steps, int N>
MPSX_FN void warpgroup_multiply_steps(const A& left, const A& right, const Steps& steps, int thread, float (&sums)[N]) {
  typedef warpgroup_multiplier<D, Scope, typename A::value_type> M;
  typedef window_multiplier<D, Scope, typename A::value_type> W;
  const unsigned memory = staging_memory<Scope, W::kBytes, W::kMaxBytes>();
  typedef tile_walk<Steps, 64> Walk;
  const int tiles = Walk::tiles(steps), taps = W::taps(left, steps.depth());
  with_blocks<M>(sums, [&](auto& block) __attribute__((always_inline)) {
    if (taps > 1 && tiles > 0)
      W::run(left, right, steps, taps, block, memory, thread, tiles);
    else if (tiles > 0)
      M::run(left, right, Walk(steps), block, memory, W::stages(), thread, tiles, false);
    else
      wait_for_previous_kernel();
  });
}
}  // namespace mpsx
