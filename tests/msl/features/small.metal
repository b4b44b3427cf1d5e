#include <metal_stdlib>
using namespace metal;

// feature: half and bfloat in conditional operators
template <typename T>
kernel void choose(device T* out [[buffer(0)]], device const T* in [[buffer(1)]], constant uint& n [[buffer(2)]],
                        uint i [[thread_position_in_grid]]) {
  T a = i < n ? in[i] : 0;
  T b = i < n ? in[i] : 0.5f;
  auto c = i & 1 ? a : b;
  static_assert(is_same_v<decltype(c), T>, "the type of two T is T");
  float d = i < 2 ? 1.0f : i < 4 ? a : float(b);
  device const T* p = i < n ? in + i : nullptr;
  c += p ? *p : T(0);
  T e = (i > 1 && vec<T, 2>(a, b).x > T(0)) ? (T)1 : a;
  c = i == 0 ? 1 : c;
  out[i] = c + T(d) + e;
}
template [[host_name("choose_f16")]] kernel void choose<half>(device half*, device const half*, constant uint&,
                                                                        uint);
template [[host_name("choose_f32")]] kernel decltype(choose<float>) choose<float>;

// feature: conditional operators that mix half or bfloat with other numbers
struct Anything { template <typename T> operator T() && { return T{}; } };
enum Number { two = 2 };
template <typename T>
kernel void beside(device float* out [[buffer(0)]], device const T* in [[buffer(1)]], constant uint& n [[buffer(2)]],
                   uint i [[thread_position_in_grid]]) {
  T a = i < n ? in[i] : 0;
  T b = i < n ? in[i] : 0.5f;
  T c = i < n ? 3 : in[i];
  auto d = i < n ? in[i] : 7u;
  auto e = i < n ? in[i] : true;
  auto f = i < n ? 1.25f : in[i];
  auto g = i < n ? in[i] : in[0];
  auto h = i < n ? -in[i] : T(9);
  T m = i < n ? in[i] : Anything();
  auto q = i < n ? (i & 1 ? in[i] : 4) : (short)5;
  auto r = i < n ? in[i] * 2 : in[i] + 1;
  auto s = i < n ? in[i] : two;
  const T t = (i < n) ? (T)(in[i] > T(0.5f) ? 1 : in[i]) : in[i];
  static_assert(is_same_v<decltype(d), T> && is_same_v<decltype(e), T> && is_same_v<decltype(f), float>, "");
  static_assert(is_same_v<decltype(q), T> && is_same_v<decltype(r), T> && is_same_v<decltype(s), T>, "");
  vec<T, 2> w = i < n ? vec<T, 2>(a, b) : vec<T, 2>(1, 2);
  const float v[] = {a, b, c, d, e, f, g, h, m, q, r, s, t, w.x + (i < n ? w.yx : w).x};
  for (uint k = 0; k < 14; ++k) out[14 * i + k] = v[k];
}
template [[host_name("beside_f16")]] kernel decltype(beside<half>) beside<half>;
template [[host_name("beside_bf16")]] kernel decltype(beside<bfloat>) beside<bfloat>;
// feature: half and bfloat mixed with integers and floats
kernel void mixed(device float* out [[buffer(0)]]) {
  half h = 2.5h;
  bfloat b = 1.5bf;
  h += 1;
  h *= 2.0f;
  out[0] = h;
  out[1] = pow(h, 2) + fmin(h, 1) + fma(h, 2, 1);
  half4 v = 1;
  v *= 0.5f;
  half2 w = 3.0f;
  bfloat4 u(b, 2, 3.0f, 4);
  out[2] = v.x + w.y + float(dot(u, u));
  out[3] = float(b * 2) + int(h) + (h > 3) + float(half(b)) + max(b, bfloat(7));
  int n = h;
  n += b;
  out[4] = n;
  out[5] = -h + float(abs(-b)) + (h == 7 ? 1 : 0) + !h;
  ++h, h--;
  out[6] = h / 2;
}

// feature: half and bfloat literals and limits
kernel void limits_of_small(device float* out [[buffer(0)]]) {
  out[0] = numeric_limits<half>::max();
  out[1] = numeric_limits<bfloat>::epsilon();
  out[2] = HALF_MAX + float(0.1h) + HALF_EPSILON;
  out[3] = isnan(numeric_limits<half>::quiet_NaN()) + isinf(numeric_limits<bfloat>::infinity());
  out[4] = numeric_limits<half>::denorm_min();
  out[5] = numeric_limits<half>::digits + numeric_limits<bfloat>::max_exponent;
  out[6] = half(65504.0f + 30.0f) + M_PI_H;
}
// feature: rounding of conversions
kernel void rounding(device float* out [[buffer(0)]], device const float* x [[buffer(1)]],
                     uint i [[thread_position_in_grid]]) {
  out[2 * i] = half(x[i]);
  out[2 * i + 1] = bfloat(x[i]);
}
// feature: as_type between all types of equal size
kernel void bits(device float* out [[buffer(0)]]) {
  out[0] = as_type<uint>(half2(1.0h, 2.0h)) == 0x40003c00u;
  out[1] = as_type<half2>(0x40003c00u).y;
  out[2] = as_type<float4>(uint4(0x3f800000u)).z;
  out[3] = as_type<uchar4>(0x04030201u).w + as_type<ushort>(1.0h) + float(as_type<bfloat>(ushort(0x4000)));
  float4 v(1, 2, 3, 4);
  out[4] = as_type<uint2>(v.yx).y == 0x3f800000u;
  out[5] = as_type<packed_float3>(packed_float3(1, 2, 3)).y + as_type<int>(-0.0f);
}
