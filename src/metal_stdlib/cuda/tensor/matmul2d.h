// matmul2d on NVIDIA GPUs. The operands and the scope determine which instructions it uses.
#pragma once

// clang-format off
// The order matters, because these headers depend on the ones before them.
#include "ptx.h"
#include "aligned_operands.h"
#include "layout.h"
#include "mma.h"
#include "warp_multiply.h"
#include "fragment.h"
#include "exchange.h"
#include "store.h"
#ifdef MPSX_SM90
#include "tma.h"
#include "wgmma.h"
#include "tile.h"
#include "tile_walk.h"
#include "row_copies.h"
#include "warpgroup_multiply.h"
#include "tile_pipeline.h"
#include "window_multiply.h"
#include "float_tile.h"
#include "warpgroup_multiply_f32.h"
#include "right_operand.h"
#include "register_multiply.h"
#endif
#include "staged_tiles.h"
// clang-format on

namespace mpsx {
// For each accumulator i, calls f(i, element) with the corresponding element of `destination`. If the destination is a
// tensor, skips accumulators outside its extents.
template <class L, class C, class F>
MPSX_FN void visit_destination(C& destination, int thread, F f) {
  MPSX_UNROLL_BY(kElementUnroll<L>)
  for (int i = 0; i < L::kCapacity; ++i) {
    if constexpr (is_cooperative_v<C>) {
      f(i, destination[i]);
    } else {
      const int row = element_row<L>(thread, i), column = element_column<L>(thread, i);
      const bool inside = row < L::kRows && column < L::kColumns && column < int(destination.get_extent(0)) &&
                          row < int(destination.get_extent(1));
      if (inside)
        f(i, destination.mpsx_data()[long(column) * long(destination.get_stride(0)) +
                                     long(row) * long(destination.get_stride(1))]);
    }
  }
}
// Initializes the accumulators: to the destination's elements if the operation accumulates, and to zero otherwise.
template <matmul2d_descriptor D, class L, class S, class C>
MPSX_FN void load_destination(C& destination, int thread, S (&sums)[L::kCapacity]) {
  MPSX_UNROLL_BY(kElementUnroll<L>)
  for (int i = 0; i < L::kCapacity; ++i) sums[i] = S(0);
  if constexpr (D.mpsx_accumulates())
    visit_destination<L>(destination, thread,
                         [&](int i, auto& element) __attribute__((always_inline)) { sums[i] = S(element); });
}
template <class L, class S, class C>
MPSX_FN void store_destination(C& destination, int thread, const S (&sums)[L::kCapacity]) {
  typedef element_of_t<C> T;
  if constexpr (is_tensor_v<C> && matrix_store<L>::exists)
    matrix_store<L>::store(sums, destination);
  else
    visit_destination<L>(destination, thread,
                         [&](int i, auto& element) __attribute__((always_inline)) { element = T(sums[i]); });
}

// matmul2d on a single thread (execution_thread).
template <matmul2d_descriptor D, class A, class B, class C>
MPSX_FN void multiply_in_thread(const A& left, const B& right, C& destination) {
  typedef grid_layout<D.m, D.n, metal::execution_thread> L;
  typedef metal::conditional_t<metal::is_same_v<element_of_t<C>, int>, int, float> S;
  S sums[L::kCapacity];
  load_destination<D, L>(destination, 0, sums);
  const auto get = [](const auto& x, int row, int column) __attribute__((always_inline)) {
    typedef metal::remove_cvref_t<decltype(x)> X;
    if constexpr (is_tensor_v<X>)
      return S(tensor_reader<X>{x}.get(row, column));
    else
      return S(x[row * X::mpsx_layout::kColumns + column]);
  };
  const int depth = depth_of<D>(left, right);
  for (int k = 0; k < depth; ++k) {
    MPSX_UNROLL_BY(kElementUnroll<L>)
    for (int i = 0; i < L::kCapacity; ++i) {
      const S a = D.transpose_left ? get(left, k, i / D.n) : get(left, i / D.n, k);
      const S b = D.transpose_right ? get(right, i % D.n, k) : get(right, k, i % D.n);
      sums[i] += a * b;
    }
  }
  store_destination<L>(destination, 0, sums);
}

// Multiplies with wgmma if it supports the operands and the scope, and with mma.sync otherwise.
template <matmul2d_descriptor D, class Scope, class L, class A, class B, class S>
MPSX_FN void accumulate(const A& left, const B& right, int thread, S (&sums)[L::kCapacity]) {
#ifdef MPSX_SM90
  if constexpr (uses_warpgroups<D, Scope, A, B>())
    warpgroup_multiply<D, Scope>(left, right, thread, sums);
  else if constexpr (uses_tf32_warpgroups<D, Scope, A, B>())
    tf32_warpgroup_multiply<D, Scope>(left, right, single_product{depth_of<D>(left, right)}, thread, sums);
  else if constexpr (uses_register_warpgroups<D, Scope, A, B>())
    register_multiply<D, Scope>(left, right, thread, sums);
  else
#endif
      if constexpr (uses_fragments<D, Scope, A, B>())
    multiply_fragments<D>(left.mpsx_elements(), right.mpsx_elements(), sums);
  else
    warp_multiply<D, Scope>(left, right, thread, sums);
}

template <matmul2d_descriptor D, class Scope, class A, class B, class C>
MPSX_FN void multiply(const A& left, const B& right, C& destination, const char*, int) {
  typedef typename destination_layout<D, Scope>::type L;
  if constexpr (metal::is_same_v<Scope, metal::execution_thread>) {
    multiply_in_thread<D>(left, right, destination);
  } else {
    staging_memory<Scope, 0>();  // tells the driver the number of threads
    const int thread = scope_thread<Scope>();
    typedef accumulator_of<A, B> S;
    if constexpr (metal::is_same_v<S, int> && !metal::is_same_v<element_of_t<C>, int>) {
      // Sum integers exactly, as ints, before adding the sums to the float destination.
      int sums[L::kCapacity] = {};
      accumulate<D, Scope, L>(left, right, thread, sums);
      float total[L::kCapacity];
      load_destination<D, L>(destination, thread, total);
#pragma unroll
      for (int i = 0; i < L::kCapacity; ++i) total[i] += float(sums[i]);
      store_destination<L>(destination, thread, total);
    } else {
      S sums[L::kCapacity];
      load_destination<D, L>(destination, thread, sums);
      accumulate<D, Scope, L>(left, right, thread, sums);
      store_destination<L>(destination, thread, sums);
    }
  }
}
}  // namespace mpsx

#include "multiply_cluster.h"
#include "multiply_pixels.h"
#include "multiply_steps.h"
#include "multiply_tiles.h"
#include "multiply_vectors.h"
