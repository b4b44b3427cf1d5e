// Vectorized over elements, because all elements need the same number of rounds. Elements that must walk further are
// moved together for the next iteration.

template <typename T>
inline void permute_chunk(device T* out, ulong start, uint count, FeistelHalves masks, thread const FeistelKeys& keys,
                          constant PermutationParams& p, uint, uint) {
  uint low[kRandomChunk], high[kRandomChunk], position[kRandomChunk];
  for (uint i = 0; i < count; ++i) {
    low[i] = uint(start + i) & masks.low;
    high[i] = uint((start + i) >> p.low_bits);
    position[i] = i;
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
      out[position[i]] = T(x < 2 ? x ^ keys.swap : x);  // overwritten later if the element walks further
      low[walking] = low[i];
      high[walking] = high[i];
      position[walking] = position[i];
      walking += x >= p.numel ? 1u : 0u;
    }
    left = walking;
  }
}
