// Random permutations, generated without sorting.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "random/chunk.h"

// The finalizer of A. Appleby's MurmurHash3 (public domain).
inline uint mix(uint x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

// A Feistel network is a permutation of the numbers below 2^bits, regardless of its round function. It is applied
// repeatedly until the result is below n ("cycle walking"), which yields a permutation of the numbers below n (J.
// Black, P. Rogaway, CT-RSA 2002). Each thread computes its element independently. 24 rounds suffice (R. Mitchell et
// al., "Bandwidth-optimal random shuffling for GPUs", 2021).
struct FeistelKeys {
  uint key[kFeistelRounds];
  uint swap;  // the network generates only even permutations; swapping 0 and 1 half of the time adds odd ones
};

inline FeistelKeys feistel_keys(constant PermutationParams& p) {
  FeistelKeys keys;
  for (uint i = 0; i < kFeistelRounds / 4; ++i) {
    const PhiloxBlock r = philox(p.seed, p.offset + i);
    keys.key[4 * i] = r.x;
    keys.key[4 * i + 1] = r.y;
    keys.key[4 * i + 2] = r.z;
    keys.key[4 * i + 3] = r.w;
  }
  keys.swap = philox(p.seed, p.offset + kFeistelRounds / 4).x & 1u;
  return keys;
}

// The low half and the high half of a number.
struct FeistelHalves {
  uint low, high;
};

// Applies the Feistel network. `masks` selects the bits of each half.
inline FeistelHalves feistel(FeistelHalves x, FeistelHalves masks, thread const FeistelKeys& keys) {
  for (uint i = 0; i < kFeistelRounds; i += 2) {
    x.high ^= mix(x.low ^ keys.key[i]) & masks.high;
    x.low ^= mix(x.high ^ keys.key[i + 1]) & masks.low;
  }
  return x;
}

// Permutes the numbers start, start + 1, and so on. Walks the cycle of each number until the value is below p.numel.
template <typename T>
inline void permute_chunk(device T* out, ulong start, uint count, FeistelHalves masks, thread const FeistelKeys& keys,
                          constant PermutationParams& p, uint index, uint threads) {
  for (uint i = index; i < count; i += threads) {
    ulong x = start + i;
    do {
      const FeistelHalves to = feistel({uint(x) & masks.low, uint(x >> p.low_bits)}, masks, keys);
      x = ulong(to.high) << p.low_bits | to.low;
    } while (x >= p.numel);
    out[i] = T(x < 2 ? x ^ keys.swap : x);
  }
}

template <typename T>
kernel void randperm(device T* out [[buffer(0)]], constant PermutationParams& p [[buffer(1)]],
                     uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                     uint tpt [[threads_per_threadgroup]]) {
  const FeistelKeys keys = feistel_keys(p);
  const FeistelHalves masks = {uint((ulong(1) << p.low_bits) - 1), uint((ulong(1) << p.high_bits) - 1)};
  const ulong start = ulong(group) * kRandomChunk;
  const uint count = uint(min(p.numel - start, ulong(kRandomChunk)));
  permute_chunk(out + start, start, count, masks, keys, p, tid, tpt);
}

#define RANDPERM(T, TAG) MPSX_KERNEL("randperm_" #TAG, randperm<T>)
RANDPERM(long, i64)
RANDPERM(int, i32)
