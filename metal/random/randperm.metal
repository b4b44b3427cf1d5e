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

inline ulong feistel(ulong x, uint low_bits, uint high_bits, thread const FeistelKeys& keys) {
  const uint low_mask = uint((ulong(1) << low_bits) - 1), high_mask = uint((ulong(1) << high_bits) - 1);
  uint low = uint(x) & low_mask, high = uint(x >> low_bits);
  for (uint i = 0; i < kFeistelRounds; i += 2) {
    high ^= mix(low ^ keys.key[i]) & high_mask;
    low ^= mix(high ^ keys.key[i + 1]) & low_mask;
  }
  return ulong(high) << low_bits | low;
}

template <typename T>
kernel void randperm_long(device T* out [[buffer(0)]], constant PermutationParams& p [[buffer(1)]],
                          uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                          uint tpt [[threads_per_threadgroup]]) {
  const FeistelKeys keys = feistel_keys(p);
  const ulong start = ulong(group) * kRandomChunk;
  const uint count = uint(min(p.numel - start, ulong(kRandomChunk)));
  for (uint i = tid; i < count; i += tpt) {
    ulong x = start + i;
    do x = feistel(x, p.low_bits, p.high_bits, keys);
    while (x >= p.numel);
    out[start + i] = T(x < 2 ? x ^ keys.swap : x);
  }
}

#define RANDPERM(T, TAG)                                 \
  MPSX_KERNEL("randperm_short_" #TAG, randperm_short<T>) \
  MPSX_KERNEL("randperm_long_" #TAG, randperm_long<T>)
RANDPERM(long, i64)
RANDPERM(int, i32)
