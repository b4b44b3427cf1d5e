// Stores accumulators to memory, in 16-byte vectors if the destination is aligned and element by element otherwise.
#pragma once

namespace mpsx {
template <class V>
MPSX_FN unsigned packed_pair(float a, float b) {
  static_assert(is_half_type<V> || is_bfloat_type<V>, "types of 16 bits");
  unsigned word;
  if constexpr (is_half_type<V>)
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
  else
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
  return word;
}
// Returns two elements of 16 bits in one word.
template <class V, class T>
MPSX_FN unsigned pair(T a, T b) {
  if constexpr (metal::is_same_v<T, V>)
    return unsigned(metal::as_type<metal::ushort>(a)) | unsigned(metal::as_type<metal::ushort>(b)) << 16;
  else
    return packed_pair<V>(float(a), float(b));
}
// Transposes words between the four lanes that share a row. Before, each lane holds two adjacent columns of four
// blocks. Afterwards, lane q holds all eight columns of block q.
MPSX_FN void transpose_quad(unsigned (&w)[4], int q) {
  unsigned x = shuffle_xor(q & 1 ? w[0] : w[1], 1), y = shuffle_xor(q & 1 ? w[2] : w[3], 1);
  if (q & 1)
    w[0] = x, w[2] = y;
  else
    w[1] = x, w[3] = y;
  x = shuffle_xor(q & 2 ? w[0] : w[2], 2), y = shuffle_xor(q & 2 ? w[1] : w[3], 2);
  if (q & 2)
    w[0] = x, w[1] = y;
  else
    w[2] = x, w[3] = y;
}

// The rows of a tensor, for store_rows().
template <class X>
struct tensor_rows {
  static_assert(X::get_rank() == 2, "store: expected a tensor of rank 2");
  const X& target;
  MPSX_FN int columns() const { return int(target.get_extent(0)); }
  MPSX_FN long stride() const { return target.get_stride(0); }
  MPSX_FN bool aligned() const {
    return ((unsigned long)target.mpsx_data() | (unsigned long)target.get_stride(1) * sizeof(typename X::value_type)) %
               16 ==
           0;
  }
  MPSX_FN typename X::value_type* row(int r) const {
    return r < int(target.get_extent(1)) ? target.mpsx_data() + long(r) * long(target.get_stride(1)) : nullptr;
  }
};

// The base class of matrix_store for layouts that store their elements row by row. A subclass has a function
// store_rows<V>(elements, rows), which stores the elements of each row r to rows.row(r), or skips the row if that is
// null. Elements are rows.stride() apart. The first rows.columns() columns are stored. rows.aligned() tells whether
// vectors of 16 bytes can be stored.
template <class L>
struct row_store {
  static constexpr bool exists = true;

  template <class T, class X>
  static MPSX_FN void store(const T* elements, const X& target) {
    matrix_store<L>::template store_rows<typename X::value_type>(elements, tensor_rows<X>{target});
  }
};
// The tensor may be in threadgroup memory, so use a generic address.
typedef unsigned word2 __attribute__((ext_vector_type(2)));
MPSX_FN void store_words(void* to, word2 v) { *static_cast<word2*>(to) = v; }
MPSX_FN void store_words(void* to, word4 v) { *static_cast<word4*>(to) = v; }

template <int ROWS, int COLUMNS, class Scope, int WARP_ROWS, int WARP_COLUMNS>
struct matrix_store<mma_layout<ROWS, COLUMNS, Scope, WARP_ROWS, WARP_COLUMNS>>
    : row_store<mma_layout<ROWS, COLUMNS, Scope, WARP_ROWS, WARP_COLUMNS>> {
  typedef mma_layout<ROWS, COLUMNS, Scope, WARP_ROWS, WARP_COLUMNS> L;

  template <class V, class T, class Rows>
  static MPSX_FN void store_rows(const T* elements, const Rows& rows) {
    constexpr bool kPacked = (metal::is_same_v<T, float> || metal::is_same_v<T, V>) &&
                             (is_half_type<V> || is_bfloat_type<V>) && L::kBlockColumns % 4 == 0;
    const int thread = scope_thread<Scope>(), quad = thread % 4;
    const int first = L::slot_column(thread, 0) - quad * 2, columns = metal::min(rows.columns(), COLUMNS);
    const long stride = rows.stride();
    const bool aligned = stride == 1 && rows.aligned();
#pragma unroll
    for (int slot = 0; slot < L::kThreadRows; ++slot) {
      const int row = L::slot_row(thread, slot);
      V* const line = row < ROWS ? rows.row(row) : nullptr;
      if constexpr (kPacked) {
        if (aligned && columns % 8 == 0) {  // whole vectors; separate code for the last vector of a row is not worth it
#pragma unroll
          for (int block = 0; block < L::kBlockColumns; block += 4) {
            unsigned w[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
              w[i] = pair<V>(elements[L::element(slot, (block + i) * 2)],
                             elements[L::element(slot, (block + i) * 2 + 1)]);
            transpose_quad(w, quad);
            const int column = first + block * 8 + quad * 8;
            if (line && column < columns) store_words(line + column, word4{w[0], w[1], w[2], w[3]});
          }
          continue;
        }
      }
      if (!line) continue;
#pragma unroll
      for (int block = 0; block < L::kBlockColumns; ++block) {
        const int column = first + block * 8 + quad * 2;
        const T a = elements[L::element(slot, block * 2)], b = elements[L::element(slot, block * 2 + 1)];
        if constexpr (sizeof(V) == 4) {  // four lanes together store 32 bytes of a row
          if (aligned && column + 2 <= columns) {
            store_words(line + column, word2{__builtin_bit_cast(unsigned, V(a)), __builtin_bit_cast(unsigned, V(b))});
            continue;
          }
        }
        if (column < columns) line[column * stride] = V(a);
        if (column + 1 < columns) line[(column + 1) * stride] = V(b);
      }
    }
  }
};

// In each row, a lane stores the four adjacent columns of a fragment together.
template <int ROWS, int COLUMNS, bool COLUMN_MAJOR>
struct matrix_store<fragment_layout<ROWS, COLUMNS, COLUMN_MAJOR>>
    : row_store<fragment_layout<ROWS, COLUMNS, COLUMN_MAJOR>> {
  typedef fragment_layout<ROWS, COLUMNS, COLUMN_MAJOR> L;

  template <class V, class T, class Rows>
  static MPSX_FN void store_rows(const T* elements, const Rows& rows) {
    constexpr bool kVectors = sizeof(V) == 4 || is_half_type<V> || is_bfloat_type<V>;
    const int thread = scope_thread<typename L::scope>(), columns = metal::min(rows.columns(), COLUMNS);
    const long stride = rows.stride();
    const bool aligned = stride == 1 && rows.aligned();
#pragma unroll
    for (int slot = 0; slot < L::kThreadRows; ++slot) {
      V* const row = rows.row(L::slot_row(thread, slot));
      if (!row) continue;
#pragma unroll
      for (int k = 0; k < L::kThreadColumns; k += 4) {
        const T* const vector = elements + L::element(slot, k);  // four adjacent columns
        const int column = L::slot_column(thread, k);
        if constexpr (kVectors) {
          if (aligned && column + 4 <= columns) {
            store_vector<V>(row + column, vector);
            continue;
          }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i)
          if (column + i < columns) row[(column + i) * stride] = V(vector[i]);
      }
    }
  }

 private:
  template <class V, class T>
  static MPSX_FN void store_vector(V* to, const T* v) {
    if constexpr (sizeof(V) == 4)
      store_words(to, word4{__builtin_bit_cast(unsigned, V(v[0])), __builtin_bit_cast(unsigned, V(v[1])),
                            __builtin_bit_cast(unsigned, V(v[2])), __builtin_bit_cast(unsigned, V(v[3]))});
    else
      store_words(to, word2{pair<V>(v[0], v[1]), pair<V>(v[2], v[3])});
  }
};

// store_rows() of metal/lib/store_rows.h.
template <class V, class Sums, class Rows>
MPSX_FN void store_rows(const Sums& sums, const Rows& rows) {
  typedef matrix_store<typename Sums::mpsx_layout> store;
  if constexpr (store::exists)
    store::template store_rows<V>(sums.mpsx_elements(), rows);
  else
    store_rows_in_turn<V>(sums, rows);
}
}  // namespace mpsx
