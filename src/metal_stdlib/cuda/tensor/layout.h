// The layout of cooperative tensors without fragments, which is that of the accumulators of mma.sync and wgmma. For
// each layout, accumulator_blocks says which elements one mma.sync instruction computes.
#pragma once

namespace mpsx {
// The warps form a grid of WARP_ROWS x WARP_COLUMNS. Each warp accumulates blocks of 16 rows and 8 columns. Its blocks
// are 16 * WARP_ROWS rows apart but adjacent in the direction of columns. In each block, a lane holds two adjacent
// columns of two rows. These are lane / 4 and lane / 4 + 8 if there are several warps. If WARP_ROWS is a multiple of 4,
// the blocks of four warps form the accumulator of one wgmma instruction. A single warp has the rows of fragments, so
// that map_iterator works between both.
template <int ROWS, int COLUMNS, class Scope, int WARP_ROWS, int WARP_COLUMNS>
struct mma_layout {
  typedef Scope scope;
  static constexpr int kRows = ROWS, kColumns = COLUMNS, kThreads = scope_size<Scope>::threads;
  static constexpr int kWarpRows = WARP_ROWS, kWarpColumns = WARP_COLUMNS;
  static constexpr int kBlockRows = (ROWS + 16 * WARP_ROWS - 1) / (16 * WARP_ROWS);  // blocks per warp, vertically
  static constexpr int kBlockColumns = (COLUMNS + 8 * WARP_COLUMNS - 1) / (8 * WARP_COLUMNS);
  static constexpr int kThreadRows = kBlockRows * 2, kThreadColumns = kBlockColumns * 2;
  static constexpr int kCapacity = kThreadRows * kThreadColumns;
  static constexpr int kFamily = 2, kRowFamily = kThreads == 32 ? 1 : 2;

  static constexpr int row_slot(int i) { return i / 4 / kBlockColumns * 2 + i / 2 % 2; }
  static constexpr int column_slot(int i) { return i / 4 % kBlockColumns * 2 + i % 2; }
  static constexpr int element(int row, int column) {
    return (row / 2 * kBlockColumns + column / 2) * 4 + row % 2 * 2 + column % 2;
  }
  static MPSX_FN int warp_row(int thread) { return thread / 32 % WARP_ROWS; }
  // LLVM does not know the number of threads, so tell it when there is one column. Otherwise, it keeps bounds checks.
  static MPSX_FN int warp_column(int thread) { return WARP_COLUMNS == 1 ? 0 : thread / 32 / WARP_ROWS; }
  static MPSX_FN int slot_row(int thread, int slot) {
    const int row = kThreads == 32 ? fragment_row(thread) : thread % 32 / 4;
    return (slot / 2 * WARP_ROWS + warp_row(thread)) * 16 + slot % 2 * 8 + row;
  }
  static MPSX_FN int slot_column(int thread, int slot) {
    return (warp_column(thread) * kBlockColumns + slot / 2) * 8 + thread % 4 * 2 + slot % 2;
  }
};

// Returns the number of rows in the grid of warps. It is as large as possible with at least 16 matrix rows per row of
// warps. If `rows` is a multiple of 16, no block is partly outside the matrix.
constexpr int warp_rows(int rows, int warps) {
  int found = 1;
  for (int n = 2; n <= warps; ++n)
    if (warps % n == 0 && n * 16 <= rows && (rows % 16 != 0 || rows % (n * 16) == 0)) found = n;
  return found;
}

template <int ROWS, int COLUMNS, class Scope>
struct default_layout {
  static constexpr int kWarps = scope_size<Scope>::simdgroups, kWarpRows = warp_rows(ROWS, kWarps);
  typedef mma_layout<ROWS, COLUMNS, Scope, kWarpRows, kWarps / kWarpRows> type;
};
template <int ROWS, int COLUMNS>
struct default_layout<ROWS, COLUMNS, metal::execution_thread> {
  typedef grid_layout<ROWS, COLUMNS, metal::execution_thread> type;
};

// The blocks of 16 rows and 8 columns that a warp accumulates. The order of a block's rows and columns is free, because
// A's rows and B's columns can be loaded in any order.
template <class L>
struct accumulator_blocks {
  static constexpr int kRows = L::kBlockRows, kColumns = L::kBlockColumns;
  // Returns the index of the thread's element i in block (m, n).
  static constexpr int element(int m, int n, int i) { return (m * kColumns + n) * 4 + i; }
  // Returns the column of B that a thread loads for the blocks in column n.
  static MPSX_FN int column(int thread, int n) {
    return L::slot_column(thread, n * 2) - thread % 4 * 2 + thread % 32 / 4;
  }
};
// Each fragment consists of two blocks. In a row, lane q holds columns 4q and 4q + 1 of the first block, and columns 4q
// + 2 and 4q + 3 of the second.
template <int ROWS, int COLUMNS, bool COLUMN_MAJOR>
struct accumulator_blocks<fragment_layout<ROWS, COLUMNS, COLUMN_MAJOR>> {
  static constexpr int kRows = ROWS / 16, kColumns = COLUMNS / 8;
  static constexpr int element(int m, int n, int i) {
    return fragment_layout<ROWS, COLUMNS, COLUMN_MAJOR>::element(m * 2 + i / 2, n * 2 + i % 2);
  }
  static MPSX_FN int column(int thread, int n) {
    const int g = thread % 32 / 4;
    return n / 2 * 16 + g / 2 * 4 + n % 2 * 2 + g % 2;
  }
};
}  // namespace mpsx
