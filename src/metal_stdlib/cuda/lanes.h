// Values exchanged between the lanes of a warp: the interface that simt_simd.h and simt_quad.h are written against.
#pragma once

namespace mpsx {
// thread_elements() of a simdgroup_matrix are, on Apple's GPUs, those in row (lane / 4 & 4) + lane / 2 % 4 and column
// (lane / 4 & 2) * 2 + lane % 2 * 2, which kernels count on. Tensor cores have row lane / 4 and column lane % 4 * 2. In
// a file with such a kernel lanes are therefore numbered otherwise than the GPU does, in SIMD groups that are whole.
#ifdef MPSX_THREAD_ELEMENTS
MPSX_FN bool lanes_differ() {
  return (unsigned(__nvvm_read_ptx_sreg_tid_x()) | 31u) < unsigned(__nvvm_read_ptx_sreg_ntid_x());
}
MPSX_FN unsigned lane_of_gpu(unsigned i) {
  return lanes_differ() ? (i & 17u) | (i >> 1 & 1u) << 3 | (i >> 3 & 1u) << 2 | (i >> 2 & 1u) << 1 : i;
}
MPSX_FN unsigned gpu_lane_of(unsigned i) {
  return lanes_differ() ? (i & 17u) | (i >> 3 & 1u) << 1 | (i >> 2 & 1u) << 3 | (i >> 1 & 1u) << 2 : i;
}
// A set of lanes, as bits.
MPSX_FN unsigned lanes_of_gpu(unsigned mask) {
  unsigned m = mask, t = (m >> 2 ^ m) & 0x0c0c0c0cu;
  m ^= t ^ t << 2;
  t = (m >> 4 ^ m) & 0x00f000f0u;
  m ^= t ^ t << 4;
  return lanes_differ() ? m : mask;
}
#else
MPSX_FN unsigned lane_of_gpu(unsigned i) { return i; }
MPSX_FN unsigned gpu_lane_of(unsigned i) { return i; }
MPSX_FN unsigned lanes_of_gpu(unsigned mask) { return mask; }
#endif

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
  unsigned on_gpu, active, lane;  // lanes that take part, as bits; this one
  T mine;
  MPSX_FN lanes_of(const T& v, const char*, const char*, int)
      : on_gpu(active_lanes()), active(lanes_of_gpu(on_gpu)),
        lane(lane_of_gpu(unsigned(__nvvm_read_ptx_sreg_laneid()))), mine(v) {}

  // The value of an active lane; anything of others. Of a lane of its own for each caller.
  MPSX_FN T get(unsigned i) const { return exchanged(i, ~0u); }
  // Its bits that are in `kept`, of every word.
  MPSX_FN T exchanged(unsigned i, unsigned kept) const {
    constexpr unsigned kWords = (sizeof(T) + 3) / 4;
    unsigned words[kWords] = {};
    __builtin_memcpy(words, static_cast<const void*>(&mine), sizeof(T));
#pragma unroll
    for (unsigned k = 0; k < kWords; ++k)
      words[k] = unsigned(__nvvm_shfl_sync_idx_i32(on_gpu, int(words[k]), int(gpu_lane_of(i)), 31)) & kept;
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
  MPSX_FN unsigned votes() const { return lanes_of_gpu(unsigned(__nvvm_vote_ballot_sync(on_gpu, bool(mine)))); }
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
