// <metal_pack>: packs normalized integers and small floats into one word (MSL specification 3.2, section 6.15).
// Values are scaled by 2^bits - 1 (unorm) or 2^(bits - 1) - 1 (snorm) and rounded to nearest even. NaN becomes zero.
#pragma once

namespace metal {
MPSX_FN uint mpsx_to_unorm(float x, uint bits) {
  return uint(rint(saturate(isnan(x) ? 0.0f : x) * float((1u << bits) - 1u)));
}
MPSX_FN uint mpsx_to_snorm(float x, uint bits) {
  const float c = fmin(fmax(isnan(x) ? 0.0f : x, -1.0f), 1.0f);
  return uint(int(rint(c * float((1u << (bits - 1)) - 1u)))) & ((1u << bits) - 1u);
}
MPSX_FN float mpsx_from_unorm(uint x, uint bits) { return float(x & ((1u << bits) - 1u)) / float((1u << bits) - 1u); }
MPSX_FN float mpsx_from_snorm(uint x, uint bits) {
  const int v = int(x << (32 - bits)) >> (32 - bits);
  return fmax(float(v) / float((1u << (bits - 1)) - 1u), -1.0f);
}
// The sRGB transfer function (IEC 61966-2-1).
MPSX_FN float mpsx_to_srgb(float x) {
  const float c = saturate(isnan(x) ? 0.0f : x);
  return c < 0.0031308f ? 12.92f * c : fma(1.055f, pow(c, 1.0f / 2.4f), -0.055f);
}
MPSX_FN float mpsx_from_srgb(float x) {
  return x <= 0.04045f ? x / 12.92f : pow((x + 0.055f) / 1.055f, 2.4f);
}

#define MPSX_PACK(KIND, T)                                                                                   \
  template <class V, class = enable_if_t<mpsx_vector<V>::size == 4>>                                         \
  MPSX_FN uint pack_##T##_to_##KIND##4x8(const V& v) {                                                       \
    uint r = 0;                                                                                              \
    for (int i = 0; i < 4; ++i) r |= mpsx_to_##KIND(float(v.get(i)), 8) << (8 * i);                          \
    return r;                                                                                                \
  }                                                                                                          \
  template <class V, class = enable_if_t<mpsx_vector<V>::size == 2>>                                         \
  MPSX_FN uint pack_##T##_to_##KIND##2x16(const V& v) {                                                      \
    return mpsx_to_##KIND(float(v.get(0)), 16) | mpsx_to_##KIND(float(v.get(1)), 16) << 16;                  \
  }                                                                                                          \
  MPSX_FN vec<T, 4> unpack_##KIND##4x8_to_##T(uint x) {                                                      \
    vec<T, 4> r(T(0));                                                                                       \
    for (int i = 0; i < 4; ++i) r.s[i] = T(mpsx_from_##KIND(x >> (8 * i), 8));                               \
    return r;                                                                                                \
  }                                                                                                          \
  MPSX_FN vec<T, 2> unpack_##KIND##2x16_to_##T(uint x) {                                                     \
    return vec<T, 2>(T(mpsx_from_##KIND(x, 16)), T(mpsx_from_##KIND(x >> 16, 16)));                          \
  }
MPSX_PACK(unorm, float)
MPSX_PACK(snorm, float)
MPSX_PACK(unorm, half)
MPSX_PACK(snorm, half)
#undef MPSX_PACK

// Red is in the lowest bits. In sRGB formats, the alpha channel is linear.
#define MPSX_PACK_COLOR(T)                                                                                     \
  template <class V, class = enable_if_t<mpsx_vector<V>::size == 4>>                                           \
  MPSX_FN uint pack_##T##_to_srgb_unorm4x8(const V& v) {                                                       \
    uint r = mpsx_to_unorm(float(v.get(3)), 8) << 24;                                                          \
    for (int i = 0; i < 3; ++i) r |= mpsx_to_unorm(mpsx_to_srgb(float(v.get(i))), 8) << (8 * i);               \
    return r;                                                                                                  \
  }                                                                                                            \
  MPSX_FN vec<T, 4> unpack_unorm4x8_srgb_to_##T(uint x) {                                                      \
    vec<T, 4> r(T(mpsx_from_unorm(x >> 24, 8)));                                                               \
    for (int i = 0; i < 3; ++i) r.s[i] = T(mpsx_from_srgb(mpsx_from_unorm(x >> (8 * i), 8)));                  \
    return r;                                                                                                  \
  }                                                                                                            \
  template <class V, class = enable_if_t<mpsx_vector<V>::size == 3>>                                           \
  MPSX_FN ushort pack_##T##_to_unorm565(const V& v) {                                                          \
    return ushort(mpsx_to_unorm(float(v.get(0)), 5) | mpsx_to_unorm(float(v.get(1)), 6) << 5 |                 \
                  mpsx_to_unorm(float(v.get(2)), 5) << 11);                                                    \
  }                                                                                                            \
  MPSX_FN vec<T, 3> unpack_unorm565_to_##T(ushort x) {                                                         \
    return vec<T, 3>(T(mpsx_from_unorm(x, 5)), T(mpsx_from_unorm(x >> 5, 6)), T(mpsx_from_unorm(x >> 11, 5))); \
  }                                                                                                            \
  template <class V, class = enable_if_t<mpsx_vector<V>::size == 4>>                                           \
  MPSX_FN uint pack_##T##_to_unorm10a2(const V& v) {                                                           \
    return mpsx_to_unorm(float(v.get(0)), 10) | mpsx_to_unorm(float(v.get(1)), 10) << 10 |                     \
           mpsx_to_unorm(float(v.get(2)), 10) << 20 | mpsx_to_unorm(float(v.get(3)), 2) << 30;                 \
  }                                                                                                            \
  MPSX_FN vec<T, 4> unpack_unorm10a2_to_##T(uint x) {                                                          \
    return vec<T, 4>(T(mpsx_from_unorm(x, 10)), T(mpsx_from_unorm(x >> 10, 10)),                               \
                     T(mpsx_from_unorm(x >> 20, 10)), T(mpsx_from_unorm(x >> 30, 2)));                         \
  }
MPSX_PACK_COLOR(float)
MPSX_PACK_COLOR(half)
#undef MPSX_PACK_COLOR
}  // namespace metal
