#include <metal_stdlib>
using namespace metal;

// feature: swizzles as values and as assignment targets
kernel void swizzles(device float* out [[buffer(0)]]) {
  float4 v(1, 2, 3, 4);
  auto q = v.wz;
  out[0] = q.x * 10 + q.y;
  v.xz = v.zx;
  v.yw *= float2(10, 100);
  v.r += 1;
  out[1] = v.x; out[2] = v.y; out[3] = v.z; out[4] = v.w;
  auto sum = [](auto a) { return a.x + a.y; };
  out[5] = sum(v.bg) + v.xyz.zyx.x + v.xyz[1];
  thread float4* p = &v;
  p->xyz = 7;
  p->w = p->rgb.g;
  out[6] = dot(v, float4(1));
}
// feature: packed vectors with components and swizzles
kernel void packed(device float* out [[buffer(0)]], device packed_float3* p [[buffer(1)]]) {
  float3 a = p[0];
  p[1] = a.zyx;
  p[1].y += 10;
  p[2] = packed_float3(p[1].xy, 5);
  p[2] += p[0];
  p[3].xz = a.xy;
  p[3].y = 0;
  packed_half4 h = packed_half4(1, 2, 3, 4);
  out[0] = float4(h).w + h[2] + h.x + sizeof(packed_float3) + alignof(packed_half4) + sizeof(packed_char3);
  out[1] = length(p[0]) + max(p[0], 2.0f).x;
}
// feature: vector constructors, conversions, operators
kernel void constructors(device float* out [[buffer(0)]]) {
  int3 i = int3(float3(1.9, -1.9, 2.5));
  uchar4 c = uchar4(250);
  c += 10;
  short2 s = {1, -2};
  s <<= 3;
  bool4 m = float4(1, 5, 2, 7) > 2.0f;
  uint2 u = ~uint2(0u) >> uint2(28, 31);
  float4 f = float4(float2(1, 2), 3, 4), g{};
  f++;
  --f.x;
  g = select(f, -f, f > 100.0f);
  out[0] = i.x * 100 + i.y * 10 + i.z;
  out[1] = c.x + s.x + s.y;
  out[2] = m.x * 1 + m.y * 2 + m.z * 4 + m.w * 8;
  out[3] = u.x * 10 + u.y;
  out[4] = f.x + f.y + f.z + f.w;
  out[5] = any(m) + all(!m) + all(m || true) + any(m && bool4(false));
  out[6] = sizeof(float3) + sizeof(half3) + alignof(char2) + sizeof(bool4);
}
// feature: matrices
kernel void matrices(device float* out [[buffer(0)]]) {
  float2x2 a(1, 2, 3, 4), b(float2(0, 1), float2(1, 0));
  float2x3 r(float3(1, 2, 3), float3(4, 5, 6));
  float2x2 c = a * b;
  out[0] = c[0][0] * 1000 + c[0][1] * 100 + c[1].x * 10 + c[1].y;
  out[1] = (r * float2(1, 2)).z + (float3(1, 0, 1) * r).y;
  out[2] = determinant(a) + determinant(float3x3(2)) + determinant(float4x4(float4(0, 1, 0, 0), float4(1, 0, 0, 0),
                                                                             float4(0, 0, 3, 0), float4(0, 0, 5, 2)));
  float3x2 t = transpose(r);
  out[3] = t[2][1] + t[0].x;
  half4x4 h(0.5h);
  float4x4 f = float4x4(h);
  f[3][1] = 2;
  f *= 2;
  out[4] = f[0][0] + f[3].y + (f + f)[3][3];
  out[5] = sizeof(float3x3) + sizeof(half2x4);
  const float2x2 listed = {{1, 2}, {3, 4}};
  const float3x3 columns({1, 0, 0}, float3(0, 2, 0), {0, 0, 3});
  const half2x4 wide = {half4(1), {1, 2, 3, 4}};
  out[6] = listed[1][0] * 100 + determinant(columns) * 10 + float(wide[1].z);
}
constant constexpr float3 kAxis = float3(1, 2, 3);
constexpr constant float kSecond = kAxis.y;
constexpr constant float2 kTurned = kAxis.zx;
static_assert(kAxis.z == 3.0f, "the third");
constexpr float constant_dot(float2 a, float2 b) { return a.x * b.x + a.y * b.y; }
constexpr constant float kDot = constant_dot(kTurned, float2(2, 4));
struct Point { float x, y; };
constexpr constant Point kPoint = {3, 4};
constexpr constant float kPointY = kPoint.y;
struct Range {
  float2 low, high;
  constexpr float width() const { return high.r - low.r; }
};
constexpr constant Range kRange{float2(1, 2), float2(5, 7)};
template <int N>
struct LastPlusThird {
  static constant constexpr float value = float4(1, 2, 3, N).w + kAxis.rgb.b;
};
// feature: components and swizzles in constant expressions, and class members named x and y
kernel void constant_expressions(device float* out [[buffer(0)]]) {
  constexpr float4 q = float4(kAxis, 4);
  constexpr int n = int(q.w);
  float a[n];
  for (int j = 0; j < n; j++) a[j] = j;
  if constexpr (kAxis.x > 0) a[0] = 10;
  constexpr float4 turned = q.wzyx;
  constexpr float first = turned.x;
  out[0] = kSecond + kTurned.x * 10 + kTurned.y * 100;
  out[1] = kDot + kPointY;
  out[2] = a[3] + a[0];
  out[3] = first + LastPlusThird<9>::value;
  out[4] = constant_dot(float2(out[0], 1), q.xy) + kRange.width();
}
