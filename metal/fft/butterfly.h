// Twiddle factors, and butterflies: small DFTs in registers.
#pragma once

#include "lib/complex.h"

// Returns exp(-2 pi i k / n) for k < n <= 2^29. Integer arithmetic splits the angle exactly into `quarter` quarter
// turns and a remainder of y quarter turns, with |y| <= 1/2. The Taylor polynomials then have errors of about half a
// unit in the last place.
inline float2 root_of_unity(uint k, uint n) {
  const float whole = float(n);
  const uint quarter = uint(rint(float(k) * (4.0f / whole)));
  const float part = float(int(4u * k - quarter * n)), inverse = 1.0f / whole, near = part * inverse;
  const float y = fma(fma(-near, whole, part), inverse, near), square = y * y;
  float s = fma(square, 1.60441185e-4f, -4.68175414e-3f);
  s = fma(square, fma(square, s, 7.96926262e-2f), -6.45964098e-1f);
  s = fma(y, 1.57079637f, y * fma(square, s, -4.37113883e-8f));
  float c = fma(square, -2.52020424e-5f, 9.19260274e-4f);
  c = fma(square, fma(square, c, -2.08634808e-2f), 2.53669508e-1f);
  c = fma(square, fma(square, c, -1.23370055f), 1.0f);
  const bool odd = (quarter & 1u) != 0u, cosine_is_negative = ((quarter + 1u) & 2u) != 0u;
  const float cosine = odd ? s : c, sine = odd ? c : s;
  return float2(cosine_is_negative ? -cosine : cosine, (quarter & 2u) != 0u ? sine : -sine);
}

// cos(2 pi m / R) and sin(2 pi m / R) for m = 1 … (R - 1) / 2, one row per prime R = 3, 5, 7, 11, 13.
constant float kFftCosines[] = {
    -0.5f,
    0.309016994f, -0.809016994f,
    0.623489802f, -0.222520934f, -0.900968868f,
    0.841253533f, 0.415415013f, -0.142314838f, -0.654860734f, -0.959492974f,
    0.885456026f, 0.568064747f, 0.120536680f, -0.354604887f, -0.748510748f, -0.970941817f};
constant float kFftSines[] = {
    0.866025404f,
    0.951056516f, 0.587785252f,
    0.781831482f, 0.974927912f, 0.433883739f,
    0.540640817f, 0.909631995f, 0.989821442f, 0.755749574f, 0.281732557f,
    0.464723172f, 0.822983866f, 0.992708874f, 0.935016243f, 0.663122658f, 0.239315664f};
template <uint R> struct FirstRoot;
template <> struct FirstRoot<3> { enum : uint { index = 0 }; };
template <> struct FirstRoot<5> { enum : uint { index = 1 }; };
template <> struct FirstRoot<7> { enum : uint { index = 3 }; };
template <> struct FirstRoot<11> { enum : uint { index = 6 }; };
template <> struct FirstRoot<13> { enum : uint { index = 11 }; };

// Butterfly for an odd prime radix R. Sums and differences of points k and R - k halve the number of multiplications.
template <uint R>
struct Butterfly {
  static METAL_FUNC void transform(thread float2* v) {
    enum : uint { kHalf = (R - 1) / 2 };
    float2 sums[kHalf], differences[kHalf];
    const float2 first = v[0];
    MPSX_UNROLL
    for (uint i = 0; i < kHalf; ++i) {
      sums[i] = v[i + 1] + v[R - 1 - i];
      differences[i] = v[i + 1] - v[R - 1 - i];
    }
    float2 total = first;
    MPSX_UNROLL
    for (uint i = 0; i < kHalf; ++i) total += sums[i];
    v[0] = total;
    MPSX_UNROLL
    for (uint k = 1; k <= kHalf; ++k) {
      float2 even = first, odd = float2(0.0f);
      MPSX_UNROLL
      for (uint i = 0; i < kHalf; ++i) {
        const uint m = k * (i + 1) % R;
        const bool mirrored = m > kHalf;
        const uint at = FirstRoot<R>::index + (mirrored ? R - m : m) - 1;
        const float cosine = kFftCosines[at], sine = mirrored ? -kFftSines[at] : kFftSines[at];
        even = fma(sums[i], float2(cosine), even);
        odd = fma(differences[i], float2(sine), odd);
      }
      v[k] = even + over_i(odd);
      v[R - k] = even + times_i(odd);
    }
  }
};
template <>
struct Butterfly<1> {
  static METAL_FUNC void transform(thread float2*) {}
};
template <>
struct Butterfly<2> {
  static METAL_FUNC void transform(thread float2* v) {
    const float2 difference = v[0] - v[1];
    v[0] = v[0] + v[1];
    v[1] = difference;
  }
};
inline void transform_4(thread float2& a, thread float2& b, thread float2& c, thread float2& d) {
  const float2 even = a + c, even_difference = a - c, odd = b + d, odd_difference = over_i(b - d);
  a = even + odd;
  b = even_difference + odd_difference;
  c = even - odd;
  d = even_difference - odd_difference;
}
template <>
struct Butterfly<4> {
  static METAL_FUNC void transform(thread float2* v) { transform_4(v[0], v[1], v[2], v[3]); }
};
template <>
struct Butterfly<8> {
  static METAL_FUNC void transform(thread float2* v) {
    float2 a0 = v[0], a1 = v[2], a2 = v[4], a3 = v[6], b0 = v[1], b1 = v[3], b2 = v[5], b3 = v[7];
    transform_4(a0, a1, a2, a3);
    transform_4(b0, b1, b2, b3);
    b1 = M_SQRT1_2_F * (b1 + over_i(b1));
    b2 = over_i(b2);
    b3 = M_SQRT1_2_F * (over_i(b3) - b3);
    v[0] = a0 + b0;
    v[1] = a1 + b1;
    v[2] = a2 + b2;
    v[3] = a3 + b3;
    v[4] = a0 - b0;
    v[5] = a1 - b1;
    v[6] = a2 - b2;
    v[7] = a3 - b3;
  }
};
