// Exchanges values between the lanes of a warp. simt_simd.h and simt_quad.h use this interface.
#pragma once

namespace mpsx {
// On Apple's GPUs, lane l holds the thread_elements() of a simdgroup_matrix in row (l / 4 & 4) + l / 2 % 4, starting at
// column (l / 4 & 2) * 2 + l % 2 * 2, and kernels rely on this layout. Tensor cores use row l / 4 and column l % 4 * 2.
// Files that call thread_elements() therefore renumber the lanes of full SIMD groups. Files with tensor operations,
// whose fragments have the same rows as on Apple's GPUs, renumber them in a different way that saves shuffles
// (tensor/fragment.h).
#if defined(MPSX_THREAD_ELEMENTS) || defined(MPSX_TENSORS)
MPSX_FN bool lanes_differ() {
  return (unsigned(__nvvm_read_ptx_sreg_tid_x()) | 31u) < unsigned(__nvvm_read_ptx_sreg_ntid_x());
}
// Moves bits a, b, c, d and e of a lane index to bits 4, 3, 2, 1 and 0.
MPSX_FN unsigned permuted_bits(unsigned i, int a, int b, int c, int d, int e) {
  return (i >> a & 1u) << 4 | (i >> b & 1u) << 3 | (i >> c & 1u) << 2 | (i >> d & 1u) << 1 | (i >> e & 1u);
}
// For each bit set in `lanes`, swaps that bit of `mask` with the bit `shift` positions above it.
MPSX_FN unsigned swapped_lanes(unsigned mask, unsigned lanes, int shift) {
  const unsigned t = (mask >> shift ^ mask) & lanes;
  return mask ^ t ^ t << shift;
}
#ifdef MPSX_THREAD_ELEMENTS
MPSX_FN unsigned metal_lane(unsigned i) { return lanes_differ() ? permuted_bits(i, 4, 1, 3, 2, 0) : i; }
MPSX_FN unsigned hardware_lane(unsigned i) { return lanes_differ() ? permuted_bits(i, 4, 2, 1, 3, 0) : i; }
// Converts a bit mask of hardware lanes to a bit mask of Metal lanes.
MPSX_FN unsigned metal_lanes(unsigned mask) {
  const unsigned m = swapped_lanes(swapped_lanes(mask, 0x0c0c0c0cu, 2), 0x00f000f0u, 4);
  return lanes_differ() ? m : mask;
}
#else
MPSX_FN unsigned metal_lane(unsigned i) { return lanes_differ() ? permuted_bits(i, 3, 1, 4, 2, 0) : i; }
MPSX_FN unsigned hardware_lane(unsigned i) { return lanes_differ() ? permuted_bits(i, 2, 4, 1, 3, 0) : i; }
MPSX_FN unsigned metal_lanes(unsigned mask) {
  unsigned m = swapped_lanes(swapped_lanes(mask, 0x0000ff00u, 8), 0x00f000f0u, 4);
  m = swapped_lanes(m, 0x00cc00ccu, 6);
  return lanes_differ() ? m : mask;
}
#endif
#else
MPSX_FN unsigned metal_lane(unsigned i) { return i; }
MPSX_FN unsigned hardware_lane(unsigned i) { return i; }
MPSX_FN unsigned metal_lanes(unsigned mask) { return mask; }
#endif

// Returns a bit mask of the lanes that execute this instruction together with the caller. The instruction is volatile
// to keep LLVM from moving or merging it: a shuffle that waits for missing lanes hangs the GPU.
MPSX_FN unsigned active_lanes() {
  unsigned mask;
  __asm__ volatile("activemask.b32 %0;" : "=r"(mask));
  return mask;
}

// One call of a SIMD-group function. Every active lane must execute every shuffle. Therefore all lanes loop over the
// same source lanes, and each lane selects the value it needs only after the shuffle.
template <class T>
struct lanes_of {
  static constexpr unsigned kAll = ~0u;
  unsigned hardware_active, active, lane;  // masks of the active lanes (hardware and Metal numbering); this lane
  T mine;
  MPSX_FN lanes_of(const T& v, const char*, const char*, int)
      : hardware_active(active_lanes()), active(metal_lanes(hardware_active)),
        lane(metal_lane(unsigned(__nvvm_read_ptx_sreg_laneid()))), mine(v) {}

  // Returns the value of active lane i. The result is undefined for inactive lanes. `i` may differ between lanes.
  MPSX_FN T get(unsigned i) const { return exchanged(i, ~0u); }
  // Returns get(i), with every 32-bit word masked by `kept`.
  MPSX_FN T exchanged(unsigned i, unsigned kept) const {
    constexpr unsigned kWords = (sizeof(T) + 3) / 4;
    unsigned words[kWords] = {};
    __builtin_memcpy(words, static_cast<const void*>(&mine), sizeof(T));
#pragma unroll
    for (unsigned k = 0; k < kWords; ++k)
      words[k] = unsigned(__nvvm_shfl_sync_idx_i32(hardware_active, int(words[k]), int(hardware_lane(i)), 31)) & kept;
    T r(mine);
    __builtin_memcpy(static_cast<void*>(&r), words, sizeof(T));
    return r;
  }
  // Returns the value of lane i, or zero if that lane is inactive. In Metal, the result would be undefined.
  MPSX_FN T take(unsigned i) const {
    const unsigned there = active >> (i & 31u) & unsigned(i < MPSX_SIMD_WIDTH) & 1u;
    return exchanged(i, 0u - there);  // mask the value, because a branch could make lanes diverge
  }
  // Returns take(i), or `outside` if the SIMD group has no lane i.
  MPSX_FN T take(unsigned i, const T& outside) const {
    const T taken = take(i);
    return i < MPSX_SIMD_WIDTH ? taken : outside;
  }
  template <class R, class F>
  MPSX_FN R shared(F compute) const {
    return compute();
  }
  // Reduces the active lanes: with a butterfly of shuffles if all lanes are active, and in order otherwise.
  template <class F>
  MPSX_FN T fold_active(F f) const {
    if (active != kAll) return fold(active, f);
    lanes_of partial(*this);
#pragma unroll
    for (unsigned distance = 1; distance < MPSX_SIMD_WIDTH; distance *= 2)
      partial.mine = T(f(partial.mine, partial.get(lane ^ distance)));
    return partial.mine;
  }
  // Reduces the lanes of `mask` in order. The mask may differ between lanes.
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
  // Returns a bit mask of the active lanes with a nonzero value.
  MPSX_FN unsigned votes() const { return metal_lanes(unsigned(__nvvm_vote_ballot_sync(hardware_active, bool(mine)))); }
};

// Maps a swizzle type to the corresponding vector type, and any other type to itself.
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
