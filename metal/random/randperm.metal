// Random permutations without a sort.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "random/chunk.h"

// R. Durstenfeld's shuffle ("Algorithm 235", 1964), for the lengths that one thread does in no time.
template <typename T>
kernel void randperm_short(device T* out [[buffer(0)]], constant PermutationParams& p [[buffer(1)]],
                           uint tid [[thread_position_in_grid]]) {
  if (tid != 0) return;
  const uint n = uint(p.numel);
  for (uint i = 0; i < n; ++i) out[i] = T(i);
  PhiloxBlock r = {0, 0, 0, 0};
  for (uint i = n; i > 1; --i) {
    const uint step = n - i, word = step % 4;
    if (word == 0) r = philox(p.seed, p.offset + step / 4);
    const uint j = uniform_below(word == 0 ? r.x : word == 1 ? r.y : word == 2 ? r.z : r.w, i);
    const T last = out[i - 1];
    out[i - 1] = out[j];
    out[j] = last;
  }
}

// The finaliser of A. Appleby's MurmurHash3 (public domain).
inline uint mix(uint x) {
  x = (x ^ (x >> 16)) * 0x85ebca6bu;
  x = (x ^ (x >> 13)) * 0xc2b2ae35u;
  return x ^ (x >> 16);
}

// A Feistel network is a permutation of the numbers below 2^bits for any round function; walking on while the result
// is not below n makes it one of the numbers below n (J. Black, P. Rogaway, CT-RSA 2002). Each thread finds its element
// alone. R. Mitchell et al., "Bandwidth-optimal random shuffling for GPUs" (2021), measured that 24 rounds suffice.
struct FeistelKeys {
  uint key[kFeistelRounds];
  uint swap;  // a network alone makes even permutations only; exchanging 0 and 1 half of the time mends that
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

// The two halves of a number.
struct FeistelHalves {
  uint low, high;
};

#if MPSX_VECTOR_BYTES
// The masks are those of the halves' bits.
inline FeistelHalves feistel(FeistelHalves x, FeistelHalves masks, thread const FeistelKeys& keys) {
  for (uint i = 0; i < kFeistelRounds; i += 2) {
    x.high ^= mix(x.low ^ keys.key[i]) & masks.high;
    x.low ^= mix(x.high ^ keys.key[i + 1]) & masks.low;
  }
  return x;
}

// Numbers start, start + 1, … walk on until they are below p.numel.
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
#else
// On a CPU a loop is a vector loop if all take the same steps: those that have to walk on are packed for the next one.
template <typename T>
inline void permute_chunk(device T* out, ulong start, uint count, FeistelHalves masks, thread const FeistelKeys& keys,
                          constant PermutationParams& p, uint, uint) {
  uint low[kRandomChunk], high[kRandomChunk], place[kRandomChunk];
  for (uint i = 0; i < count; ++i) {
    low[i] = uint(start + i) & masks.low;
    high[i] = uint((start + i) >> p.low_bits);
    place[i] = i;
  }
  for (uint left = count; left > 0;) {
    for (uint round = 0; round < kFeistelRounds; round += 2) {
      const uint first = keys.key[round], second = keys.key[round + 1];
      MPSX_VECTORIZE
      for (uint i = 0; i < left; ++i) {
        high[i] ^= mix(low[i] ^ first) & masks.high;
        low[i] ^= mix(high[i] ^ second) & masks.low;
      }
    }
    uint walking = 0;
    for (uint i = 0; i < left; ++i) {
      const ulong x = ulong(high[i]) << p.low_bits | low[i];
      out[place[i]] = T(x < 2 ? x ^ keys.swap : x);  // the last one to be written there is below p.numel
      low[walking] = low[i];
      high[walking] = high[i];
      place[walking] = place[i];
      walking += x >= p.numel ? 1u : 0u;
    }
    left = walking;
  }
}
#endif

template <typename T>
kernel void randperm_long(device T* out [[buffer(0)]], constant PermutationParams& p [[buffer(1)]],
                          uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                          uint tpt [[threads_per_threadgroup]]) {
  const FeistelKeys keys = feistel_keys(p);
  const FeistelHalves masks = {uint((ulong(1) << p.low_bits) - 1), uint((ulong(1) << p.high_bits) - 1)};
  const ulong start = ulong(group) * kRandomChunk;
  const uint count = uint(min(p.numel - start, ulong(kRandomChunk)));
  permute_chunk(out + start, start, count, masks, keys, p, tid, tpt);
}

#define RANDPERM(T, TAG)                                 \
  MPSX_KERNEL("randperm_short_" #TAG, randperm_short<T>) \
  MPSX_KERNEL("randperm_long_" #TAG, randperm_long<T>)
RANDPERM(long, i64)
RANDPERM(int, i32)
