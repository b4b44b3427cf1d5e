// SHA-256 (FIPS 180-4): hashes of one-block messages, two-to-one compression for a Merkle tree, and a nonce search with
// double hashing. The rounds are unrolled, as in mining kernels.
#include <metal_stdlib>
using namespace metal;

constant uint K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01,
    0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc,
    0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08,
    0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
constant uint INITIAL[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static inline uint rotr(uint x, uint n) { return (x >> n) | (x << (32 - n)); }
static inline uint big0(uint x) { return rotr(x, 2) ^ rotr(x, 13) ^ rotr(x, 22); }
static inline uint big1(uint x) { return rotr(x, 6) ^ rotr(x, 11) ^ rotr(x, 25); }
static inline uint small0(uint x) { return rotr(x, 7) ^ rotr(x, 18) ^ (x >> 3); }
static inline uint small1(uint x) { return rotr(x, 17) ^ rotr(x, 19) ^ (x >> 10); }
static inline uint choose(uint x, uint y, uint z) { return (x & y) ^ (~x & z); }
static inline uint majority(uint x, uint y, uint z) { return (x & y) ^ (x & z) ^ (y & z); }
static inline uint swapped(uint x) {
  return (x >> 24) | ((x >> 8) & 0xff00) | ((x << 8) & 0xff0000) | (x << 24);
}

static void compress(thread uint* state, thread const uint* block) {
  uint w[64];
#pragma unroll
  for (int i = 0; i < 16; ++i) w[i] = block[i];
#pragma unroll
  for (int i = 16; i < 64; ++i) w[i] = small1(w[i - 2]) + w[i - 7] + small0(w[i - 15]) + w[i - 16];
  uint a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6], h = state[7];
#pragma unroll
  for (int i = 0; i < 64; ++i) {
    const uint t1 = h + big1(e) + choose(e, f, g) + K[i] + w[i];
    const uint t2 = big0(a) + majority(a, b, c);
    h = g; g = f; f = e; e = d + t1; d = c; c = b; b = a; a = t1 + t2;
  }
  state[0] += a; state[1] += b; state[2] += c; state[3] += d;
  state[4] += e; state[5] += f; state[6] += g; state[7] += h;
}

// Hashes messages of `length` 32-bit words. `length` is at most 13.
kernel void hash_short(device const uint* messages [[buffer(0)]], device uint* digests [[buffer(1)]],
                       constant uint& length [[buffer(2)]], uint gid [[thread_position_in_grid]]) {
  uint state[8], block[16];
  for (int i = 0; i < 8; ++i) state[i] = INITIAL[i];
  for (uint i = 0; i < 16; ++i) block[i] = i < length ? swapped(messages[gid * length + i]) : 0;
  block[length] = 0x80000000;
  block[15] = length * 32;
  compress(state, block);
  for (int i = 0; i < 8; ++i) digests[gid * 8 + i] = swapped(state[i]);
}

// Hashes the 64-byte concatenation of two digests.
kernel void merkle_pair(device const uint* children [[buffer(0)]], device uint* parents [[buffer(1)]],
                        uint gid [[thread_position_in_grid]]) {
  uint state[8], block[16];
  for (int i = 0; i < 8; ++i) state[i] = INITIAL[i];
  for (int i = 0; i < 16; ++i) block[i] = swapped(children[gid * 16 + i]);
  compress(state, block);
  for (int i = 0; i < 16; ++i) block[i] = 0;
  block[0] = 0x80000000;
  block[15] = 512;
  compress(state, block);
  for (int i = 0; i < 8; ++i) parents[gid * 8 + i] = swapped(state[i]);
}

// Hashes an 80-byte header that ends with the nonce twice, and keeps the smallest first word of any digest.
kernel void search_nonce(device const uint* header [[buffer(0)]], device atomic_uint* best [[buffer(1)]],
                         device uint* firsts [[buffer(2)]], uint gid [[thread_position_in_grid]]) {
  uint state[8], block[16];
  for (int i = 0; i < 8; ++i) state[i] = INITIAL[i];
  for (int i = 0; i < 16; ++i) block[i] = swapped(header[i]);
  compress(state, block);
  for (int i = 0; i < 16; ++i) block[i] = 0;
  for (int i = 0; i < 3; ++i) block[i] = swapped(header[16 + i]);
  block[3] = swapped(gid);
  block[4] = 0x80000000;
  block[15] = 640;
  compress(state, block);
  for (int i = 0; i < 8; ++i) block[i] = state[i];
  block[8] = 0x80000000;
  for (int i = 9; i < 15; ++i) block[i] = 0;
  block[15] = 256;
  for (int i = 0; i < 8; ++i) state[i] = INITIAL[i];
  compress(state, block);
  firsts[gid] = state[0];
  atomic_fetch_min_explicit(best, state[0], memory_order_relaxed);
}
