#include <metal_stdlib>
using namespace metal;

// feature: integer functions of scalars and vectors
kernel void integers(device float* out [[buffer(0)]]) {
  out[0] = popcount(uint4(1, 3, 7, 15)).w + clz(ushort(1)) + ctz(8);
  out[1] = absdiff(-100, 100) + absdiff(uchar(3), uchar(250));
  out[2] = addsat(char(100), char(100)) + subsat(uchar(1), uchar(2)) + addsat(short2(30000), short2(30000)).y;
  out[3] = hadd(5, 8) + rhadd(5, 8) + mulhi(1 << 20, 1 << 20) + madsat(100000, 100000, 1) / 1000;
  out[4] = mad24(3, 4, 5) + mul24(uint2(3), uint2(5)).x;
  out[5] = rotate(uchar(0x81), uchar(1)) + reverse_bits(uchar(1));
  out[6] = extract_bits(0xf0u, 4, 4) + insert_bits(0u, 0xfu, 2, 2) + extract_bits(int2(-1), 0, 4).x;
  out[7] = max3(1, 5, 3) + min3(4, 2, 6) + median3(1, 9, 5) + clamp(int3(-5, 0, 5), -1, 1).z;
  out[8] = abs(int2(-3, 4)).x + max(long(1) << 40, 3l) / (1l << 38);
}
// feature: common functions
kernel void common(device float* out [[buffer(0)]]) {
  out[0] = mix(1.0f, 3.0f, 0.25f) + mix(float2(0), float2(4), 0.5f).y;
  out[1] = saturate(1.5f) + saturate(half2(-1, 0.5)).y + sign(-3.0f) + step(1.0f, 2.0f);
  out[2] = smoothstep(0.0f, 2.0f, 1.0f) + clamp(5.0f, 0.0f, 1.0f) + clamp(half4(9), 0.0h, 2.0h).z;
  out[3] = fract(2.75f) + fmod(7.5f, 2.0f) + fdim(3.0f, 1.0f) + fmedian3(3.0f, 1.0f, 2.0f);
  float c, s = sincos(0.0f, c), whole;
  out[4] = s + c + modf(3.25f, whole) + whole;
  int e;
  float m = frexp(12.0f, e);
  int2 e2;
  float2 m2 = frexp(float2(8, 0.5f), e2);
  out[5] = m * 10 + e + m2.x + e2.x + e2.y + ldexp(1.5f, 3) + ilogb(9.0f) + ldexp(float2(1), int2(1, 2)).y;
  out[6] = copysign(2.0f, -1.0f) + rint(2.5f) + round(2.5f) + trunc(-1.5f) + ceil(1.2f) + floor(-1.2f);
  out[7] = max3(1.0f, 2.0f, 3.0f) + fmax(NAN, 1.0f) + min(2.0f, NAN) + powr(2.0f, 3.0f) + rsqrt(4.0f) + exp10(2.0f);
}
// feature: geometric functions
kernel void geometric(device float* out [[buffer(0)]]) {
  float3 a(1, 2, 3), b(4, 5, 6);
  out[0] = dot(a, b) + cross(a, b).y + length(float2(3, 4)) + length_squared(a);
  out[1] = distance(a, b) + distance_squared(a, b);
  out[2] = normalize(float2(3, 4)).x + fast::normalize(float2(3, 4)).y + fast::length(float2(6, 8));
  out[3] = reflect(float2(1, -1), float2(0, 1)).y + refract(float2(0, -1), float2(0, 1), 0.5f).y;
  out[4] = faceforward(float2(0, 1), float2(0, 1), float2(0, 1)).y;
}
// feature: relational functions and select
kernel void relational(device float* out [[buffer(0)]]) {
  float4 x(1, NAN, INFINITY, 0);
  out[0] = isnan(x).y + isinf(x).z + isfinite(x).x + isnormal(x).w + signbit(-x).x;
  out[1] = any(isnan(x)) + all(isfinite(x)) + isordered(1.0f, NAN) + isunordered(x, x).y;
  out[2] = select(1.0f, 2.0f, true) + select(int2(1), int2(2), bool2(true, false)).x;
  out[3] = select(x, float4(9), isnan(x)).y + select(half2(1), half2(3), half2(1) < half2(2)).x;
}
// feature: packing and unpacking functions
kernel void packing(device float* out [[buffer(0)]]) {
  out[0] = pack_float_to_unorm4x8(float4(0, 1, 0.5, 2)) == 0xff80ff00u;
  out[1] = unpack_unorm4x8_to_float(0xff00ff00u).y + unpack_snorm2x16_to_float(0x80017fffu).y;
  out[2] = unpack_snorm4x8_to_half(0x7f81u).y;
  out[3] = pack_half_to_snorm2x16(half2(1, -1)) == 0x80017fffu;
}
// feature: atomics of every type
kernel void atomics(device atomic_uint* u [[buffer(0)]], device atomic<float>* f [[buffer(1)]],
                    device atomic_ulong* w [[buffer(2)]], device atomic_int* n [[buffer(3)]],
                    uint i [[thread_position_in_grid]]) {
  atomic_fetch_add_explicit(&u[0], i, memory_order_relaxed);
  atomic_fetch_or_explicit(u + 1, 1u << (i & 7), memory_order_relaxed);
  atomic_fetch_sub_explicit(f, 0.5f, memory_order_relaxed);
  atomic_max_explicit(&w[0], ulong(i) << 40, memory_order_relaxed);
  atomic_min_explicit(&w[1], ulong(i) + 5, memory_order_relaxed);
  int old = atomic_load_explicit(n, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(n, &old, old + 2, memory_order_relaxed, memory_order_relaxed)) {
  }
  if (i == 3) atomic_store_explicit((device atomic_int*)n + 1, 42, memory_order_relaxed);
}
// feature: type traits and limits
kernel void traits(device float* out [[buffer(0)]]) {
  static_assert(is_same_v<make_unsigned_t<int>, uint> && is_same_v<conditional_t<false, int, half>, half>, "");
  static_assert(is_floating_point_v<bfloat> && !is_integral<float>::value && is_unsigned_v<uchar>, "");
  static_assert(is_same_v<remove_reference_t<thread float&>, float> && is_same_v<decay_t<const int>, int>, "");
  static_assert(conjunction_v<true_type, is_pointer<device int*>> && is_enum_v<memory_order>, "");
  static_assert(is_same_v<common_type_t<short, float>, float> && is_array_v<int[3]>, "");
  out[0] = numeric_limits<int>::max() == INT_MAX;
  out[1] = numeric_limits<float>::lowest() == -FLT_MAX;
  out[2] = numeric_limits<uchar>::digits + numeric_limits<short>::min();
  out[3] = M_PI_F;
}
