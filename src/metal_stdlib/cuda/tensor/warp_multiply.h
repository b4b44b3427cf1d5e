// matmul2d with mma.sync. It reads operands element by element, so it supports every type, extent and address space. If
// the GPU supports wgmma, scopes of complete warpgroups whose operands are in device memory use warpgroup_multiply.h
// instead.
#pragma once

namespace mpsx {
// Reads a tensor element by element, by row and column in memory. Elements outside the extents are zero.
template <class X>
struct tensor_reader {
  typedef typename X::value_type value_type;
  const X& source;
  MPSX_FN value_type get(int row, int column) const {
    const bool inside = column < int(source.get_extent(0)) && row < int(source.get_extent(1));
    return inside ? value_type(source.mpsx_data()[long(column) * long(source.get_stride(0)) +
                                                  long(row) * long(source.get_stride(1))])
                  : value_type(0);
  }
};
// Reads a cooperative tensor from its copy in threadgroup memory.
template <class T, int ROWS, int COLUMNS>
struct staged_reader {
  typedef T value_type;
  const MPSX_SHARED T* elements;
  MPSX_FN T get(int row, int column) const {
    return row < ROWS && column < COLUMNS ? T(*(const T*)(elements + row * COLUMNS + column)) : T(0);
  }
};

// Returns the size in bytes of an operand's copy in threadgroup memory, or 0 if no copy is needed.
template <class X>
constexpr unsigned operand_bytes() {
  if constexpr (is_tensor_v<X>)
    return 0;
  else
    return unsigned(X::mpsx_layout::kRows * X::mpsx_layout::kColumns * int(sizeof(typename X::element_type)) + 15) /
           16 * 16;
}
// Returns a reader for an operand. All threads of the scope must call this and must then synchronize before they read.
template <class X>
MPSX_FN auto make_reader(const X& source, int thread, unsigned memory) {
  if constexpr (is_tensor_v<X>) {
    return tensor_reader<X>{source};
  } else {
    typedef typename X::element_type T;
    typedef typename X::mpsx_layout L;
    T* const elements = (T*)(MPSX_SHARED T*)(unsigned long)memory;
    MPSX_UNROLL_LOOP
    for (int i = 0; i < L::kCapacity; ++i) {
      const int row = element_row<L>(thread, i), column = element_column<L>(thread, i);
      if (row < L::kRows && column < L::kColumns) elements[row * L::kColumns + column] = source[i];
    }
    return staged_reader<T, L::kRows, L::kColumns>{(const MPSX_SHARED T*)(unsigned long)memory};
  }
}

// Adds A B to the accumulators, which have layout L.
template <matmul2d_descriptor D, class L, class A, class B, class S>
MPSX_FN void accumulate_blocks(const A& left, const B& right, int thread, int depth, S (&sums)[L::kCapacity]) {
  typedef typename A::value_type TA;
  typedef typename B::value_type TB;
  constexpr auto operands = operands_for<TA, TB>();
  typedef metal::remove_cv_t<decltype(operands)> O;
  constexpr int kElements = O::kElements, kStep = 8 * kElements;
  typedef accumulator_blocks<L> blocks;
  const int quad = thread % 4 * kElements;
#pragma unroll 1
  for (int k = 0; k < depth; k += kStep) {
    fragment_words<O, TA, 4> a[blocks::kRows];
#pragma unroll
    for (int m = 0; m < blocks::kRows; ++m)
#pragma unroll
      for (int w = 0; w < 4; ++w)
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          const int row = L::slot_row(thread, m * 2 + w % 2), at = k + w / 2 * 4 * kElements + quad + e;
          a[m].set(w, e, at >= depth ? TA(0) : D.transpose_left ? left.get(at, row) : left.get(row, at));
        }
#pragma unroll
    for (int n = 0; n < blocks::kColumns; ++n) {
      fragment_words<O, TB, 2> b;
      const int column = blocks::column(thread, n);
#pragma unroll
      for (int w = 0; w < 2; ++w)
#pragma unroll
        for (int e = 0; e < kElements; ++e) {
          const int at = k + w * 4 * kElements + quad + e;
          b.set(w, e, at >= depth ? TB(0) : D.transpose_right ? right.get(column, at) : right.get(at, column));
        }
#pragma unroll
      for (int m = 0; m < blocks::kRows; ++m) {
        S block[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) block[i] = sums[blocks::element(m, n, i)];
        multiply_block<D.relaxed_precision>(O(), block, a[m], b);
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[blocks::element(m, n, i)] = block[i];
      }
    }
  }
}

template <class A, class B>
using accumulator_of = typename decltype(operands_for<element_of_t<A>, element_of_t<B>>())::accumulator;

template <matmul2d_descriptor D, class Scope, class A, class B, class S, int N>
MPSX_FN void warp_multiply(const A& left, const B& right, int thread, S (&sums)[N]) {
  typedef typename destination_layout<D, Scope>::type L;
  constexpr unsigned kBytes = operand_bytes<A>() + operand_bytes<B>();
  unsigned memory = 0;
  if constexpr (kBytes != 0) {
    memory = staging_memory<Scope, kBytes>();
    scope_barrier<Scope>();  // wait, because a different operation may still be using this memory
  }
  const auto a = make_reader(left, thread, memory);
  const auto b = make_reader(right, thread, memory + operand_bytes<A>());
  if constexpr (kBytes != 0) scope_barrier<Scope>();
  accumulate_blocks<D, L>(a, b, thread, depth_of<D>(left, right), sums);
  if constexpr (kBytes != 0) scope_barrier<Scope>();
}
}  // namespace mpsx
