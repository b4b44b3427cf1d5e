// Random numbers: the counter-based generator Philox4x32-10, and distributions that use it.
//
// A counter-based generator has no state: each block of its sequence is a pure function of the seed and the block's
// index, `counter`. An element's value therefore does not depend on the grid, the SIMD width or the number of threads.
#pragma once

#include "lib/types.h"

struct PhiloxBlock {
  uint x, y, z, w;
};

// The multipliers and Weyl constants are from J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy
// as 1, 2, 3" (SC 2011), section 3.3.
inline PhiloxBlock philox4x32(uint c0, uint c1, uint c2, uint c3, uint k0, uint k1) {
#pragma unroll
  for (uint round = 0; round < 10; ++round) {
    const ulong p0 = ulong(c0) * 0xD2511F53u, p1 = ulong(c2) * 0xCD9E8D57u;
    c0 = uint(p1 >> 32) ^ c1 ^ k0;
    c1 = uint(p1);
    c2 = uint(p0 >> 32) ^ c3 ^ k1;
    c3 = uint(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}

// Returns block `counter` of the sequence for `seed`.
inline PhiloxBlock philox(ulong seed, ulong counter) {
  return philox4x32(uint(counter), uint(counter >> 32), 0u, 0u, uint(seed), uint(seed >> 32));
}

// Returns a uniform number in [0, 1) with 24 random bits.
inline float uniform_unit(uint bits) { return float(int(bits >> 8)) * 0x1p-24f; }

// Returns a uniform number in (0, 1] with 32 random bits. Small values keep full precision, which -log(u) needs in its
// tail.
inline float uniform_positive(uint bits) { return fma(float(bits), 0x1p-32f, 0x1p-33f); }

// Returns a uniform integer in [0, range). Takes the high half of a product, which is faster than a remainder.
inline uint uniform_below(uint bits, uint range) { return uint((ulong(bits) * range) >> 32); }

inline ulong uniform_below(ulong bits, ulong range) {
  const ulong a = bits & 0xffffffffu, b = bits >> 32, c = range & 0xffffffffu, d = range >> 32;
  const ulong middle = b * c + ((a * c) >> 32);
  return b * d + (middle >> 32) + ((a * d + (middle & 0xffffffffu)) >> 32);
}

// Natural logarithm of a positive normal number, without branches. The polynomial is from logf in Cephes (S. Moshier).
inline float random_log(float x) {
  const uint bits = as_type<uint>(x) - 0x3f3504f3u;  // exponent and mantissa are relative to sqrt(1/2)
  const float e = float(int(bits) >> 23);
  const float f = as_type<float>((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float z = f * f;
  float y = fma(7.0376836292e-2f, f, -1.1514610310e-1f);
  y = fma(y, f, 1.1676998740e-1f);
  y = fma(y, f, -1.2420140846e-1f);
  y = fma(y, f, 1.4249322787e-1f);
  y = fma(y, f, -1.6668057665e-1f);
  y = fma(y, f, 2.0000714765e-1f);
  y = fma(y, f, -2.4999993993e-1f);
  y = fma(y, f, 3.3333331174e-1f);
  y = fma(y * f, z, -2.12194440e-4f * e);
  return fma(0.693359375f, e, f + fma(-0.5f, z, y));
}

struct SinCos {
  float sin, cos;
};

// Sine and cosine of 2 pi turn / 2^32. Integer arithmetic reduces the angle exactly to at most an eighth of a turn. The
// polynomials are from sinf and cosf in Cephes.
inline SinCos random_sincos(uint turn) {
  const uint quadrant = (turn + 0x20000000u) >> 30;
  const float x = float(int(turn - (quadrant << 30))) * 1.4629180792671596e-9f;
  const float z = x * x;
  const float s = fma(fma(fma(-1.9515295891e-4f, z, 8.3321608736e-3f), z, -1.6666654611e-1f) * z, x, x);
  const float c = fma(fma(fma(2.443315711809948e-5f, z, -1.388731625493765e-3f), z, 4.166664568298827e-2f), z * z,
                      fma(-0.5f, z, 1.0f));
  const bool swapped = (quadrant & 1u) != 0u;
  const uint sin_sign = (quadrant & 2u) << 30, cos_sign = ((quadrant + 1u) & 2u) << 30;
  return {as_type<float>(as_type<uint>(swapped ? c : s) ^ sin_sign),
          as_type<float>(as_type<uint>(swapped ? s : c) ^ cos_sign)};
}

struct NormalPair {
  float first, second;
};

// Box-Muller transform (G. Box, M. Muller, 1958): computes two standard normal numbers from two random words.
inline NormalPair box_muller(uint radius_bits, uint angle_bits) {
  const float radius = precise::sqrt(-2.0f * random_log(uniform_positive(radius_bits)));
  const SinCos angle = random_sincos(angle_bits);
  return {radius * angle.cos, radius * angle.sin};
}
