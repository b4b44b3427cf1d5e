// <metal_common>, and min, max, clamp and select for scalar types except half and bfloat.
#pragma once

namespace metal {
MPSX_FN float max(float a, float b) { return fmax(a, b); }
MPSX_FN float min(float a, float b) { return fmin(a, b); }
#define MPSX_MINMAX(T)                                             \
  MPSX_FN constexpr T max(T a, T b) { return a < b ? b : a; }      \
  MPSX_FN constexpr T min(T a, T b) { return b < a ? b : a; }
MPSX_MINMAX(char)
MPSX_MINMAX(signed char)
MPSX_MINMAX(uchar)
MPSX_MINMAX(short)
MPSX_MINMAX(ushort)
MPSX_MINMAX(int)
MPSX_MINMAX(uint)
MPSX_MINMAX(long)
MPSX_MINMAX(ulong)
#undef MPSX_MINMAX

#define MPSX_COMMON(T)                                                                            \
  MPSX_FN T clamp(T x, T lo, T hi) { return min(max(x, lo), hi); }                                \
  MPSX_FN T max3(T a, T b, T c) { return max(max(a, b), c); }                                     \
  MPSX_FN T min3(T a, T b, T c) { return min(min(a, b), c); }                                     \
  MPSX_FN T median3(T a, T b, T c) { return max(min(a, b), min(max(a, b), c)); }                  \
  MPSX_FN constexpr T select(T a, T b, bool c) { return c ? b : a; }
MPSX_COMMON(char)
MPSX_COMMON(signed char)
MPSX_COMMON(uchar)
MPSX_COMMON(short)
MPSX_COMMON(ushort)
MPSX_COMMON(int)
MPSX_COMMON(uint)
MPSX_COMMON(long)
MPSX_COMMON(ulong)
MPSX_COMMON(float)
#undef MPSX_COMMON
MPSX_FN constexpr bool select(bool a, bool b, bool c) { return c ? b : a; }

MPSX_FN float mix(float a, float b, float t) { return fma(b - a, t, a); }
MPSX_FN float saturate(float x) { return fmin(fmax(x, 0.0f), 1.0f); }
MPSX_FN float sign(float x) { return isnan(x) ? 0.0f : x == 0.0f ? x : copysign(1.0f, x); }
MPSX_FN float step(float edge, float x) { return x < edge ? 0.0f : 1.0f; }
MPSX_FN float smoothstep(float a, float b, float x) {
  const float t = saturate((x - a) / (b - a));
  return t * t * (3.0f - 2.0f * t);
}
MPSX_FN constexpr bool isordered(float a, float b) { return a == a && b == b; }
MPSX_FN constexpr bool isunordered(float a, float b) { return !isordered(a, b); }
}  // namespace metal
