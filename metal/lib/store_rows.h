// Stores the rows of a cooperative tensor at any addresses. NVIDIA GPUs exchange elements between threads first, so
// that each thread stores vectors (MPSX_STORE_ROWS is then in metal_stdlib/cuda/tensor/store.h).
//
//   MPSX_STORE_ROWS<T>(sums, rows);    // all threads of the scope call it
//
// `rows` describes the rows of type T:
//   device T* row(int r) const;    // where row r starts, or null if it is not stored
//   int columns() const;           // how many columns of the tensor to store
//   long stride() const;           // distance of two columns, in elements
//   bool aligned() const;          // whether all rows start at multiples of 16 bytes
#pragma once

#include "lib/tensor_gemm.h"

template <typename T, typename Sums, typename Rows>
METAL_FUNC void store_rows_in_turn(thread const Sums& sums, thread const Rows& rows) {
  MPSX_UNROLL
  for (ushort i = 0; i < sums.get_capacity(); ++i) {
    if (!sums.is_valid_element(i)) continue;
    const auto at = sums.get_multidimensional_index(i);
    device T* const row = rows.row(int(at[1]));
    if (row != nullptr && int(at[0]) < rows.columns()) row[at[0] * rows.stride()] = T(sums[i]);
  }
}
#ifndef MPSX_STORE_ROWS
#  define MPSX_STORE_ROWS store_rows_in_turn
#endif
