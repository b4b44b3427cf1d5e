// Poseidon2 over the scalar field of BN254 with width 3, 4 + 56 + 4 rounds and S-box x^5. Field elements are eight
// 32-bit integers in Montgomery form.
#include <metal_stdlib>
using namespace metal;

constant uint MODULUS[8] = {0xf0000001, 0x43e1f593, 0x79b97091, 0x2833e848, 0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72};
constant uint INVERSE = 0xefffffff;  // -MODULUS^-1 mod 2^32

struct Field {
  uint limb[8];
};

constant Field CONSTANTS[80] = {
@CONSTANTS@};

static inline Field add(Field a, Field b) {
  Field r;
  ulong carry = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    carry += ulong(a.limb[i]) + b.limb[i];
    r.limb[i] = uint(carry);
    carry >>= 32;
  }
  Field s;
  long borrow = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    borrow += long(r.limb[i]) - MODULUS[i];
    s.limb[i] = uint(borrow);
    borrow >>= 32;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) r.limb[i] = borrow < 0 ? r.limb[i] : s.limb[i];
  return r;
}

// Computes a * b / 2^256 with Montgomery multiplication (CIOS).
static inline Field mul(Field a, Field b) {
  uint t[10] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    ulong carry = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      carry += ulong(a.limb[j]) * b.limb[i] + t[j];
      t[j] = uint(carry);
      carry >>= 32;
    }
    carry += t[8];
    t[8] = uint(carry);
    t[9] = uint(carry >> 32);
    const uint m = t[0] * INVERSE;
    carry = (ulong(m) * MODULUS[0] + t[0]) >> 32;
#pragma unroll
    for (int j = 1; j < 8; ++j) {
      carry += ulong(m) * MODULUS[j] + t[j];
      t[j - 1] = uint(carry);
      carry >>= 32;
    }
    carry += t[8];
    t[7] = uint(carry);
    t[8] = t[9] + uint(carry >> 32);
  }
  Field r;
  long borrow = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    borrow += long(t[i]) - MODULUS[i];
    r.limb[i] = uint(borrow);
    borrow >>= 32;
  }
  borrow += t[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) r.limb[i] = borrow < 0 ? t[i] : r.limb[i];
  return r;
}

static inline Field fifth_power(Field x) {
  const Field x2 = mul(x, x);
  return mul(mul(x2, x2), x);
}

static inline void external_layer(thread Field* s) {
  const Field sum = add(add(s[0], s[1]), s[2]);
  s[0] = add(s[0], sum);
  s[1] = add(s[1], sum);
  s[2] = add(s[2], sum);
}

static inline void internal_layer(thread Field* s) {
  const Field sum = add(add(s[0], s[1]), s[2]);
  s[0] = add(s[0], sum);
  s[1] = add(s[1], sum);
  s[2] = add(add(s[2], s[2]), sum);
}

static void permute(thread Field* s) {
  external_layer(s);
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int i = 0; i < 3; ++i) s[i] = fifth_power(add(s[i], CONSTANTS[r * 3 + i]));
    external_layer(s);
  }
#pragma unroll
  for (int r = 0; r < 56; ++r) {
    s[0] = fifth_power(add(s[0], CONSTANTS[12 + r]));
    internal_layer(s);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
#pragma unroll
    for (int i = 0; i < 3; ++i) s[i] = fifth_power(add(s[i], CONSTANTS[68 + r * 3 + i]));
    external_layer(s);
  }
}

kernel void permutation(device Field* states [[buffer(0)]], uint gid [[thread_position_in_grid]]) {
  Field s[3] = {states[gid * 3], states[gid * 3 + 1], states[gid * 3 + 2]};
  permute(s);
  for (int i = 0; i < 3; ++i) states[gid * 3 + i] = s[i];
}

kernel void hash_pairs(device const Field* in [[buffer(0)]], device Field* out [[buffer(1)]],
                       uint gid [[thread_position_in_grid]]) {
  Field s[3] = {in[gid * 2], in[gid * 2 + 1], Field{}};
  permute(s);
  out[gid] = s[0];
}
