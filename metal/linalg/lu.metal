// LU factorization with partial pivoting, and linear solves with the LU factors.
#include "lib/instantiate.h"
#include "linalg/lu_panel.h"

template <typename T> struct LuTile { enum : uint { elements = kTileBytes / sizeof(T) }; };

// Factors a matrix that fits in threadgroup memory, with one threadgroup per matrix. In each step, the first SIMD group
// finds the pivot and copies the two rows to be swapped, so a step needs only two barriers. The columns of L are
// divided by their pivots at the end. `info` receives 0, or the 1-based index of the first zero pivot.
template <typename T>
kernel void lu_tile(device T* matrices [[buffer(0)]], device int* pivots [[buffer(1)]], device int* info [[buffer(2)]],
                    constant LuParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const SimdGroup simd = sg_position(g);
  threadgroup T a[LuTile<T>::elements], pivot_row[2 * kSolveColumns], other_row[2 * kSolveColumns];
  threadgroup Pivot chosen[1];
  // An odd pitch avoids bank conflicts.
  const uint rows = p.rows, columns = p.columns, batch = g.group.x, pitch = columns | 1;
  device T* matrix = matrices + long(batch) * p.a.batch;
  load_tile(a, pitch, matrix, p.a.row, p.a.column, rows, columns, g);
  tg_all_barrier();
  const Spread s = spread_over(kSolveColumns, g);
  uint singular = 0;
  for (uint k = 0; k < min(rows, columns); ++k) {
    if (simd.index == 0) {
      Pivot best = {-1.0f, k};
      for (uint i = k + simd.lane; i < rows; i += simd.lanes) {
        const float size = pivot_size(a[i * pitch + k]);
        if (size > best.key) best = {size, i};
      }
      best = sg_argmax(best, simd);
      if (simd.lane == 0) {
        chosen[0] = best;
        pivots[long(batch) * p.pivots + k] = int(best.index + 1);
      }
      sg_barrier();
      const uint row = chosen[0].index;
      for (uint j = simd.lane; j < columns; j += simd.lanes) {
        pivot_row[j] = a[row * pitch + j];
        other_row[j] = a[k * pitch + j];
      }
    }
    tg_barrier();
    const uint row = chosen[0].index;
    const bool zero = chosen[0].key == 0.0f;
    if (zero && singular == 0) singular = k + 1;
    const Divisor<T> pivot = divisor(zero ? field_number<T>(1.0f, 0.0f) : pivot_row[k]);
    for (uint i = k + s.row; i < rows; i += s.rows) {
      if (i == k) {
        for (uint j = s.column; j < columns; j += s.columns) a[i * pitch + j] = pivot_row[j];
        continue;
      }
      const bool exchanged = i == row;
      const T multiplier = pivot.divide(exchanged ? other_row[k] : a[i * pitch + k]);
      for (uint j = s.column; j < columns; j += s.columns) {
        if (!exchanged && j <= k) continue;
        const T value = exchanged ? other_row[j] : a[i * pitch + j];
        a[i * pitch + j] = j > k && !zero ? product_sum(multiplier, -pivot_row[j], value) : value;
      }
    }
    tg_barrier();
  }
  for (TileWalk w = tile_walk(rows, columns, p.a.row, g); w.more(); w.next()) {
    const uint i = w.row(), j = w.column();
    T value = a[i * pitch + j];
    const T pivot = a[min(i, j) * pitch + j];
    if (i > j && pivot_size(pivot) != 0.0f) value = quotient(value, pivot);
    matrix[long(i) * p.a.row + long(j) * p.a.column] = value;
  }
  if (g.index == 0) info[batch] = int(singular);
}

// Factors a panel of at most kPanel columns and any number of rows in device memory, with one threadgroup per matrix
// and one thread per row. Each thread also finds the best pivot for the next column among the rows it updates.
template <typename T>
kernel void lu_panel(device T* matrices [[buffer(0)]], device int* pivots [[buffer(1)]], device int* info [[buffer(2)]],
                     constant LuParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup T pivot_row[kPanel];
  threadgroup Pivot scratch[kScratch];
  const uint rows = p.rows, columns = p.columns, batch = g.group.x;
  device T* a = matrices + long(batch) * p.a.batch;
  const long down = p.a.row, across = p.a.column;
  uint singular = 0;
  Pivot best = {-1.0f, 0};
  for (uint i = g.index; i < rows; i += g.count) {
    const float size = pivot_size(a[long(i) * down]);
    if (size > best.key) best = {size, i};
  }
  tg_device_barrier();  // the rows that have been read are swapped next
  for (uint k = 0; k < min(rows, columns); ++k) {
    best = tg_reduce<CombineArgMax>(best, scratch, g);
    const uint row = best.key < 0.0f ? k : best.index;
    for (uint j = g.index; j < columns; j += g.count) {
      const long upper = long(k) * down + long(j) * across, lower = long(row) * down + long(j) * across;
      const T value = a[lower];
      if (row != k) {
        a[lower] = a[upper];
        a[upper] = value;
      }
      pivot_row[j] = value;
    }
    if (g.index == 0) pivots[long(batch) * p.pivots + k] = int(p.offset + row + 1);
    tg_all_barrier();
    const bool zero = best.key == 0.0f;
    if (zero && singular == 0) singular = p.offset + k + 1;
    const Divisor<T> pivot = divisor(zero ? field_number<T>(1.0f, 0.0f) : pivot_row[k]);
    best = {-1.0f, 0};
    for (uint i = k + 1 + g.index; i < rows; i += g.count) {
      device T* line = a + long(i) * down;
      const T multiplier = pivot.divide(line[long(k) * across]);
      line[long(k) * across] = multiplier;
      for (uint j = k + 1; j < columns; ++j) {
        const T value = product_sum(multiplier, -pivot_row[j], line[long(j) * across]);
        line[long(j) * across] = value;
        if (j == k + 1) {
          const float size = pivot_size(value);
          if (size > best.key) best = {size, i};
        }
      }
    }
    tg_all_barrier();
  }
  if (g.index == 0 && (p.offset == 0 || (singular != 0 && info[batch] == 0))) info[batch] = int(singular);
}

// Factors a panel like lu_panel, but keeps the panel in registers. Each thread holds at most ROWS rows.
template <uint ROWS>
[[max_total_threads_per_threadgroup(kPanelThreads)]]
kernel void lu_panel_held(device float* matrices [[buffer(0)]], device int* pivots [[buffer(1)]],
                          device int* info [[buffer(2)]], constant LuParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float pivot_row[kPanel], other_row[kPanel];
  threadgroup Pivot scratch[kScratch];
  const uint batch = g.group.x;
  const LuPanel panel = {matrices + long(batch) * p.a.batch, p.a.row, p.a.column, p.rows, p.columns, p.offset};
  uint singular = 0;
  for (uint first = 0; first < p.columns; first += HeldRows<ROWS>::columns) {
    const uint width = min(uint(HeldRows<ROWS>::columns), p.columns - first);
    const uint found = eliminate_held<ROWS>(panel, first, width, pivots + long(batch) * p.pivots, pivot_row, other_row,
                                            scratch, g);
    singular = singular ? singular : found;
  }
  if (g.index == 0 && (p.offset == 0 || (singular != 0 && info[batch] == 0))) info[batch] = int(singular);
}

// Returns the original index of the row that ends up at `row` after rows k and pivots[k] - 1 - offset have been swapped
// for k = 0, ..., count - 1.
template <typename P>
inline uint source_row(P pivots, uint count, uint offset, uint row) {
  uint source = row;
  for (uint k = count; k-- > 0;) {
    const uint other = uint(pivots[k]) - 1 - offset;
    source = source == k ? other : (source == other ? k : source);
  }
  return source;
}

// Applies the panel's row swaps to all columns outside the panel, and then computes the panel's rows of U in the
// columns to its right. Grid: (tiles of columns, batch).
template <typename T>
kernel void lu_swap(device T* matrices [[buffer(0)]], device const int* pivots [[buffer(1)]],
                    constant LuSwapParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  enum : uint { kPitch = kPanel + 1, kXPitch = kSolveColumns + 1 };
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup T lower[kPanel * kPitch], x[2 * kPanel * kXPitch], sums[kSums * kXPitch];
  threadgroup uint to[2 * kPanel], from[2 * kPanel];
  const uint left_tiles = p.offset / kSolveColumns, panel = p.panel;
  const bool right = g.group.x >= left_tiles;
  const uint first = right ? p.offset + panel + (g.group.x - left_tiles) * kSolveColumns : g.group.x * kSolveColumns;
  const uint columns = min(uint(kSolveColumns), (right ? p.columns : p.offset) - first);
  // Address of the panel's first row.
  device T* matrix = matrices + (long(g.group.y) * p.a.batch + long(p.offset) * p.a.row);
  device T* a = matrix + long(first) * p.a.column;
  device const int* panel_pivots = pivots + (long(g.group.y) * p.pivots + p.offset);
  for (uint i = g.index; i < 2 * panel; i += g.count) {
    const uint row = i < panel ? i : uint(panel_pivots[i - panel]) - 1 - p.offset;
    to[i] = row;
    from[i] = source_row(panel_pivots, panel, p.offset, row);
  }
  if (right) load_tile(lower, kPitch, matrix + long(p.offset) * p.a.column, p.a.row, p.a.column, panel, panel, g);
  tg_barrier();
  for (TileWalk w = tile_walk(2 * panel, columns, p.a.row, g); w.more(); w.next())
    x[w.row() * kXPitch + w.column()] = a[long(from[w.row()]) * p.a.row + long(w.column()) * p.a.column];
  tg_all_barrier();
  if (right) solve_tile(lower, kPitch, x, kXPitch, sums, panel, columns, false, true, g);
  for (TileWalk w = tile_walk(2 * panel, columns, p.a.row, g); w.more(); w.next()) {
    const uint i = w.row(), j = w.column();
    // Row to[i] is also one of the first `panel` rows and has already been stored.
    if (i >= panel && to[i] < panel) continue;
    a[long(to[i]) * p.a.row + long(j) * p.a.column] = x[i * kXPitch + j];
  }
}

// Solves linear systems with the LU factors of a matrix that fits in one block. Grid: (tiles of right-hand sides,
// batch).
template <typename T>
kernel void lu_solve_block(device T* right [[buffer(0)]], device const T* factors [[buffer(1)]],
                           device const int* pivots [[buffer(2)]], constant LuSolveParams& p [[buffer(3)]],
                           MPSX_GROUP_PARAMETERS) {
  enum : uint { kPitch = Block<T>::rows + 1, kXPitch = kSolveColumns + 1 };
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup T a[Block<T>::rows * kPitch], x[Block<T>::rows * kXPitch], sums[kSums * kXPitch];
  threadgroup uint from[Block<T>::rows];
  const uint n = p.n, first = g.group.x * kSolveColumns, columns = min(uint(kSolveColumns), p.columns - first);
  device const T* lu = factors + long(g.group.y) * p.lu.batch;
  device T* b = right + (long(g.group.y) * p.b.batch + long(first) * p.b.column);
  device const int* own_pivots = pivots + long(g.group.y) * p.pivots;
  for (uint i = g.index; i < n; i += g.count) from[i] = source_row(own_pivots, n, 0, i);
  for (TileWalk w = tile_walk(n, n, p.lu.row, g); w.more(); w.next()) {
    const T value = lu[long(w.row()) * p.lu.row + long(w.column()) * p.lu.column];
    a[w.row() * kPitch + w.column()] = p.conjugate ? conjugate(value) : value;
  }
  tg_barrier();
  for (TileWalk w = tile_walk(n, columns, p.b.row, g); w.more(); w.next()) {
    const uint i = w.row(), j = w.column();
    x[i * kXPitch + j] = b[long(p.transposed ? i : from[i]) * p.b.row + long(j) * p.b.column];
  }
  tg_all_barrier();
  // A transposed solve reads `a` with its row and column strides swapped, which makes U lower triangular.
  solve_tile(a, kPitch, x, kXPitch, sums, n, columns, false, !p.transposed, g);
  solve_tile(a, kPitch, x, kXPitch, sums, n, columns, true, p.transposed, g);
  for (TileWalk w = tile_walk(n, columns, p.b.row, g); w.more(); w.next()) {
    const uint i = w.row(), j = w.column();
    b[long(p.transposed ? from[i] : i) * p.b.row + long(j) * p.b.column] = x[i * kXPitch + j];
  }
}

// Converts pivots (row swaps) to a permutation: permutation[i] is the original index of row i. gid = (row, batch)
kernel void pivots_to_permutation(device long* permutation [[buffer(0)]], device const int* pivots [[buffer(1)]],
                                  constant PermutationParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  permutation[ulong(gid.y) * p.size + gid.x] = source_row(pivots + ulong(gid.y) * p.pivots, p.pivots, 0, gid.x);
}

#define MPSX_LU(T, TAG)                            \
  MPSX_KERNEL("lu_tile_" #TAG, lu_tile<T>)         \
  MPSX_KERNEL("lu_panel_" #TAG, lu_panel<T>)       \
  MPSX_KERNEL("lu_swap_" #TAG, lu_swap<T>)         \
  MPSX_KERNEL("lu_solve_block_" #TAG, lu_solve_block<T>)
MPSX_LU(float, f32)
MPSX_LU(float2, c64)
MPSX_KERNEL("lu_panel_2_f32", lu_panel_held<2>)
MPSX_KERNEL("lu_panel_4_f32", lu_panel_held<4>)
MPSX_KERNEL("lu_panel_8_f32", lu_panel_held<8>)
