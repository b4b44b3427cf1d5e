// Values exchanged between the lanes of a warp: the interface that simt_simd.h and simt_quad.h are written against.
#pragma once

namespace mpsx {
// The lanes that run the caller's instruction together, as bits. Volatile: LLVM would move or merge the intrinsic, and
// a shuffle that waits for lanes which never come hangs the GPU.
MPSX_FN unsigned active_lanes() {
  unsigned mask;
  __asm__ volatile("activemask.b32 %0;" : "=r"(mask));
  return mask;
}

// One SIMD function's call. Every shuffle is executed by all active lanes, which is why loops here run over lanes that
// are the same for all of them, and why values are chosen after they were exchanged, never before.
template <class T>
struct lanes_of {
  static constexpr unsigned kAll = ~0u;
  unsigned active, lane;  // lanes that take part, as bits; this one
  T mine;
  MPSX_FN lanes_of(const T& v, const char*, const char*, int)
      : active(active_lanes()), lane(unsigned(__nvvm_read_ptx_sreg_laneid())), mine(v) {}

  // The value of an active lane; anything of others. Of a lane of its own for each caller.
  MPSX_FN T get(unsigned i) const { return exchanged(i, ~0u); }
  // Its bits that are in `kept`, of every word.
  MPSX_FN T exchanged(unsigned i, unsigned kept) const {
    constexpr unsigned kWords = (sizeof(T) + 3) / 4;
    unsigned words[kWords] = {};
    __builtin_memcpy(words, static_cast<const void*>(&mine), sizeof(T));
#pragma unroll
    for (unsigned k = 0; k < kWords; ++k)
      words[k] = unsigned(__nvvm_shfl_sync_idx_i32(active, int(words[k]), int(i), 31)) & kept;
    T r(mine);
    __builtin_memcpy(static_cast<void*>(&r), words, sizeof(T));
    return r;
  }
  // The value of a lane that should be active: zero where it is not, which Metal leaves open.
  MPSX_FN T take(unsigned i) const {
    const unsigned there = active >> (i & 31u) & unsigned(i < MPSX_SIMD_WIDTH) & 1u;
    return exchanged(i, 0u - there);  // without a branch, at which lanes could part
  }
  // The same, and `outside` where the SIMD group has no such lane.
  MPSX_FN T take(unsigned i, const T& outside) const {
    const T taken = take(i);
    return i < MPSX_SIMD_WIDTH ? taken : outside;
  }
  template <class R, class F>
  MPSX_FN R shared(F compute) const {
    return compute();
  }
  // The active lanes folded: pairwise where all are there, else in order.
  template <class F>
  MPSX_FN T fold_active(F f) const {
    if (active != kAll) return fold(active, f);
    lanes_of partial(*this);
#pragma unroll
    for (unsigned distance = 1; distance < MPSX_SIMD_WIDTH; distance *= 2)
      partial.mine = T(f(partial.mine, partial.get(lane ^ distance)));
    return partial.mine;
  }
  // The lanes of `mask`, which may differ from lane to lane, folded in order.
  template <class F>
  MPSX_FN T fold(unsigned mask, F f) const {
    T r(mine);
    bool first = true;
    for (unsigned left = active; left; left &= left - 1) {
      const unsigned i = unsigned(__builtin_ctz(left));
      const T v = get(i);
      if (mask >> i & 1u) {
        r = first ? v : T(f(r, v));
        first = false;
      }
    }
    return r;
  }
  // The active lanes whose value is not zero.
  MPSX_FN unsigned votes() const { return unsigned(__nvvm_vote_ballot_sync(active, bool(mine))); }
};

// A vector instead of a swizzle, and everything else as it is.
template <class X, bool = metal::mpsx_is_vector<X>>
struct lane_value {
  typedef metal::mpsx_plain<X> type;
};
template <class X>
struct lane_value<X, false> {
  typedef X type;
};
template <class X>
using lane_value_t = typename lane_value<X>::type;
}  // namespace mpsx
