// A layout distributes the kRows x kColumns elements of a matrix over the threads of a scope. A thread's element i is
// in row element_row(thread, i) and column element_column(thread, i) of the matrix.
#pragma once

namespace mpsx {
// Returns the number of rows in the grid of threads: the largest power of two that exceeds neither `rows` nor threads /
// 4. If `rows` is a multiple of 16, the result divides it, so that no row is invalid. PyTorch's kernels with tiles of
// 48 rows rely on that.
constexpr int row_threads(int rows, int threads) {
  int found = 1;
  while (found * 2 <= rows && found * 2 <= threads / 4 && (rows % 16 != 0 || rows % (found * 2) == 0)) found *= 2;
  return threads < 4 ? 1 : found;
}
// permuted() is a permutation of [0, n) that depends on a seed. unpermuted() is its inverse. Seed 0 is the identity.
MPSX_FN int swapped(int i, int n) { return (i | 1) < n ? i ^ 1 : i; }
MPSX_FN int reflected(int i, int n, unsigned seed) { return int((seed + unsigned(n - i)) % unsigned(n)); }
MPSX_FN int permuted(int i, int n, unsigned seed) { return seed ? reflected(swapped(i, n), n, seed) : i; }
MPSX_FN int unpermuted(int i, int n, unsigned seed) { return seed ? swapped(reflected(i, n, seed), n) : i; }

// The threads form a grid. Each thread holds the elements at which its rows and columns intersect. Metal does not
// specify the layout, so tests permute the rows and columns by a seed. The permutation of the columns does not affect
// which rows a thread holds, as map_iterator requires.
template <int ROWS, int COLUMNS, class Scope>
struct grid_layout {
  typedef Scope scope;
  static constexpr int kRows = ROWS, kColumns = COLUMNS;
  static constexpr int kThreads = scope_size<Scope>::threads, kGridRows = row_threads(ROWS, kThreads),
                       kGridColumns = kThreads / kGridRows;
  static constexpr int kThreadRows = (ROWS + kGridRows - 1) / kGridRows;
  static constexpr int kThreadColumns = (COLUMNS + kGridColumns - 1) / kGridColumns;
  static constexpr int kCapacity = kThreadRows * kThreadColumns;
  static constexpr int kFamily = 0, kRowFamily = 0;

  // Slots number the rows (or columns) that a thread holds.
  static constexpr int row_slot(int i) { return i / kThreadColumns; }
  static constexpr int column_slot(int i) { return i % kThreadColumns; }
  static constexpr int element(int row, int column) { return row * kThreadColumns + column; }
  // Returns the row in a slot. If the row is outside the matrix, the elements in that slot are invalid.
  static MPSX_FN int slot_row(int thread, int slot) {
    const int at = thread / kGridColumns + slot * kGridRows;
    return at < ROWS ? permuted(at, ROWS, layout_seed()) : at;
  }
  static MPSX_FN int slot_column(int thread, int slot) {
    const int at = thread % kGridColumns * kThreadColumns + slot;
    return at < COLUMNS ? permuted(at, COLUMNS, layout_seed()) : at;
  }
  // Returns the thread that holds an element, and sets i to the element's index in that thread.
  static MPSX_FN int owner(int row, int column, int& i) {
    const int r = unpermuted(row, ROWS, layout_seed()), c = unpermuted(column, COLUMNS, layout_seed());
    i = element(r / kGridRows, c % kThreadColumns);
    return r % kGridRows * kGridColumns + c / kThreadColumns;
  }
};

// 16x16 fragments in one SIMD group, as on Apple's M5. Lane l holds four adjacent columns, starting at 4 * ((l / 4 & 2)
// + l % 2), of rows r and r + 8, where r = (l / 4 & 4) + l / 2 % 4. The fragments are in row-major order, or in
// column-major order if COLUMN_MAJOR. docs/tensors.md says whose kernels rely on this. Layouts of sides with more than
// four fragments are unknown, so tests permute these fragments by a seed.
template <int ROWS, int COLUMNS, bool COLUMN_MAJOR>
struct fragment_layout {
  typedef metal::execution_simdgroup scope;
  static constexpr int kRows = ROWS, kColumns = COLUMNS, kThreads = MPSX_SIMD_WIDTH;
  static constexpr int kThreadRows = ROWS / 8, kThreadColumns = COLUMNS / 4, kCapacity = kThreadRows * kThreadColumns;
  static constexpr int kFamily = 1, kRowFamily = 1;
  static constexpr int kFragmentRows = ROWS / 16, kFragmentColumns = COLUMNS / 16;

  static constexpr int row_slot(int i) {
    return (COLUMN_MAJOR ? i / 8 % kFragmentRows : i / 8 / kFragmentColumns) * 2 + i % 8 / 4;
  }
  static constexpr int column_slot(int i) {
    return (COLUMN_MAJOR ? i / 8 / kFragmentRows : i / 8 % kFragmentColumns) * 4 + i % 4;
  }
  static constexpr int element(int row, int column) {
    const int r = row / 2, c = column / 4, fragment = COLUMN_MAJOR ? c * kFragmentRows + r : r * kFragmentColumns + c;
    return fragment * 8 + row % 2 * 4 + column % 4;
  }
  static MPSX_FN int slot_row(int lane, int slot) {
    return permuted(slot / 2, kFragmentRows, seed(kFragmentRows)) * 16 + slot % 2 * 8 + fragment_row(lane);
  }
  static MPSX_FN int slot_column(int lane, int slot) {
    const int fragment = permuted(slot / 4, kFragmentColumns, seed(kFragmentColumns));
    return fragment * 16 + fragment_column_group(lane) * 4 + slot % 4;
  }
  static MPSX_FN int owner(int row, int column, int& i) {
    const int r = unpermuted(row / 16, kFragmentRows, seed(kFragmentRows));
    const int c = unpermuted(column / 16, kFragmentColumns, seed(kFragmentColumns));
    i = element(r * 2 + row / 8 % 2, c * 4 + column % 4);
    return fragment_lane(row % 8, column % 16 / 4);
  }

 private:
  static MPSX_FN unsigned seed(int fragments) { return fragments > 4 ? layout_seed() : 0; }
};

template <class L>
MPSX_FN int element_row(int thread, int i) {
  return L::slot_row(thread, L::row_slot(i));
}
template <class L>
MPSX_FN int element_column(int thread, int i) {
  return L::slot_column(thread, L::column_slot(i));
}

// A layout with one value per row (or column) of layout L. Every thread with an element of a row holds a copy of its
// value.
template <class L, bool OF_ROWS>
struct reduced_layout {
  typedef L source;
  static constexpr bool kOfRows = OF_ROWS;
  static constexpr int kSize = OF_ROWS ? L::kRows : L::kColumns;
  static constexpr int kCapacity = OF_ROWS ? L::kThreadRows : L::kThreadColumns;
  static MPSX_FN int position(int thread, int slot) {
    return OF_ROWS ? L::slot_row(thread, slot) : L::slot_column(thread, slot);
  }
};

// Returns whether a slot refers to the same row (or column) in A and B, on every thread. Layouts with different
// kRowFamily distribute rows differently. With different kFamily, they distribute columns differently.
template <class A, class B, bool OF_ROWS>
constexpr bool same_slots() {
  if constexpr (A::kThreads != B::kThreads) return false;
  if constexpr (OF_ROWS)
    return A::kRowFamily == B::kRowFamily && A::kRows == B::kRows && A::kThreadRows == B::kThreadRows;
  return A::kFamily == B::kFamily && A::kColumns == B::kColumns && A::kThreadColumns == B::kThreadColumns &&
         A::kRows == B::kRows;
}
}  // namespace mpsx
