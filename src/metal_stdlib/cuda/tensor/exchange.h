// Communication between threads, for reductions and layout conversions.
#pragma once

namespace mpsx {
template <class T>
MPSX_FN T shuffled_xor(T v, int mask) {
  if constexpr (sizeof(T) == 4)
    return __builtin_bit_cast(T, shuffle_xor(__builtin_bit_cast(unsigned, v), mask));
  else
    return metal::as_type<T>(metal::ushort(shuffle_xor(unsigned(metal::as_type<metal::ushort>(v)), mask)));
}

// Describes which threads hold elements of the same row (or column): a mask of the bits in which their lane indices
// differ, and the number of warps. The primary template is for layouts of a single warp. Layouts of a single thread do
// not use it.
template <class L>
struct sharing {
  static constexpr int kRowLanes = 3, kColumnLanes = 28, kWarpRows = 1, kWarpColumns = 1;
};
template <int ROWS, int COLUMNS, class Scope, int WARP_ROWS, int WARP_COLUMNS>
struct sharing<mma_layout<ROWS, COLUMNS, Scope, WARP_ROWS, WARP_COLUMNS>> {
  static constexpr int kRowLanes = 3, kColumnLanes = 28, kWarpRows = WARP_ROWS, kWarpColumns = WARP_COLUMNS;
};

template <bool OF_ROWS, class S, class D, class T>
MPSX_FN void reduce_matrix(const S& source, D& destination, mpp::tensor_ops::reduction_operation operation, T identity,
                           const char*, int) {
  typedef typename S::mpsx_layout L;
  typedef typename D::mpsx_layout R;
  typedef typename L::scope Scope;
  static_assert(R::kOfRows == OF_ROWS && same_slots<L, typename R::source, OF_ROWS>(),
                "reduce_rows and reduce_columns need a destination of the source's operation");
  constexpr int kPerSlot = OF_ROWS ? L::kThreadColumns : L::kThreadRows;
  constexpr int kLanes = L::kThreads == 1 ? 0 : OF_ROWS ? sharing<L>::kRowLanes : sharing<L>::kColumnLanes;
  constexpr int kWarps = OF_ROWS ? sharing<L>::kWarpColumns : sharing<L>::kWarpRows;
  const int thread = scope_thread<Scope>();
#pragma unroll
  for (int slot = 0; slot < R::kCapacity; ++slot) {
    T results[2] = {identity, identity};  // two chains, because each operation waits for the previous one
#pragma unroll
    for (int k = 0; k < kPerSlot; ++k) {
      const int i = OF_ROWS ? L::element(slot, k) : L::element(k, slot);
      const int at = OF_ROWS ? L::slot_column(thread, k) : L::slot_row(thread, k);
      if (at < (OF_ROWS ? L::kColumns : L::kRows)) results[k % 2] = reduced(operation, results[k % 2], source[i]);
    }
    T result = reduced(operation, results[0], results[1]);
#pragma unroll
    for (int bit = 1; bit < 32; bit *= 2)
      if (kLanes & bit) result = reduced(operation, result, shuffled_xor(result, bit));
    destination[slot] = result;
  }
  if constexpr (kWarps > 1) {
    // Combine the partial results of the warps for each row (or column).
    constexpr unsigned kBytes = unsigned(R::kSize * kWarps * int(sizeof(T)));
    T* const partial = (T*)(MPSX_SHARED T*)(unsigned long)staging_memory<Scope, kBytes>();
    const int warp = OF_ROWS ? L::warp_column(thread) : L::warp_row(thread);
    scope_barrier<Scope>();
#pragma unroll
    for (int slot = 0; slot < R::kCapacity; ++slot) {
      const int at = R::position(thread, slot);
      if (at < R::kSize) partial[warp * R::kSize + at] = destination[slot];
    }
    scope_barrier<Scope>();
#pragma unroll
    for (int slot = 0; slot < R::kCapacity; ++slot) {
      const int at = R::position(thread, slot);
      T result = identity;
      for (int w = 0; w < kWarps && at < R::kSize; ++w) result = reduced(operation, result, partial[w * R::kSize + at]);
      destination[slot] = result;
    }
    scope_barrier<Scope>();
  }
}

// Rounds two numbers to 16 bits with one instruction. LLVM would convert each one separately, four times as slowly.
template <class D>
MPSX_FN void round_pair(float a, float b, D& x, D& y) {
  unsigned words;
  if constexpr (is_half_type<D>)
    __asm__("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(words) : "f"(b), "f"(a));
  else
    __asm__("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(words) : "f"(b), "f"(a));
  x = metal::as_type<D>(metal::ushort(words));
  y = metal::as_type<D>(metal::ushort(words >> 16));
}

// Copies `source` to `destination`. No element moves to another thread, because both have the same extents and scope.
// Only the order of fragments may differ. Elements 2i and 2i + 1 are adjacent in both, so pairs are rounded together.
template <class Scope, class S, class D>
MPSX_FN void convert_layout(const S& source, D& destination, const char*, int) {
  typedef typename S::mpsx_layout A;
  typedef typename D::mpsx_layout B;
  typedef typename D::element_type T;
  static_assert(A::kRows == B::kRows && A::kColumns == B::kColumns,
                "matmul2d: a cooperative operand needs the extents of its source");
  static_assert(same_slots<A, B, true>() && same_slots<A, B, false>(),
                "matmul2d: a cooperative operand needs the scope of its source");
  constexpr bool kRounds = metal::is_same_v<typename S::element_type, float> && (is_half_type<T> || is_bfloat_type<T>);
  constexpr int kStep = kRounds && A::kCapacity % 2 == 0 ? 2 : 1;
#pragma unroll
  for (int i = 0; i < A::kCapacity; i += kStep) {
    const int k = B::element(A::row_slot(i), A::column_slot(i));
    if constexpr (kStep == 2)
      round_pair(source[i], source[i + 1], destination[k], destination[k + 1]);
    else
      destination[k] = T(source[i]);
  }
}
}  // namespace mpsx
