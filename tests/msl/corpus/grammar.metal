// Rarely used grammar that occurs in published kernels.
#include <metal_stdlib>
#include <metal_atomic>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>

#ifdef __METAL_VERSION__
#if __METAL_VERSION__ >= 310 && defined(__HAVE_BFLOAT__)
typedef bfloat bfloat16_t;
#endif
#endif
#define STRINGIFY(x) #x
#define CONCAT_(a, b) a##_##b
#define CONCAT(a, b) CONCAT_(a, b)
#define PRAGMA_UNROLL _Pragma("clang loop unroll(full)")
#define restrict __restrict

namespace outer {
namespace inner {
constant int table[2][3] = {{1, 2, 3}, {4, 5, 6}};
constexpr constant float weights[] = {0.25f, 0.5f, 0.25f};
static constant constexpr uint kBits[4] = {1u << 0, 1u << 8, 0x10000u, 0x1'0000'00u};
enum class Op : ushort { Add, Sub = 4, Mul };
enum { kWidth = 8, kHeight = kWidth / 2 };
constexpr int log2i(int n) { return n <= 1 ? 0 : 1 + log2i(n >> 1); }
}  // namespace inner
using inner::Op;
inline namespace v1 {
template <Op op>
METAL_FUNC float apply(float a, float b) {
  switch (op) {
    case Op::Add: return a + b;
    case Op::Sub: return a - b;
    default: break;
  }
  return a * b;
}
}  // namespace v1
}  // namespace outer
namespace o = outer::inner;

// feature: constructors and operators for address spaces, pointers to members
struct complex64 {
  float re, im;
  complex64() = default;
  constexpr complex64(float r, float i) : re(r), im(i) {}
  constexpr complex64(float r) : complex64(r, 0.0f) {}
  complex64(metal::float2 v) : re{v.x}, im{v[1]} {}
  complex64(float r) threadgroup : re(r), im(0) {}
  constexpr complex64(float r, float i) constant : re(r), im(i) {}
  operator metal::float2() const { return metal::float2(re, im); }
  explicit operator bool() const thread { return re != 0 || im != 0; }
  thread complex64& operator+=(thread const complex64& o) {
    re += o.re;
    im += o.im;
    return *this;
  }
  device complex64& operator+=(complex64 o) device {
    re += o.re;
    im += o.im;
    return *this;
  }
  complex64 conj() const { return {re, -im}; }
  friend complex64 operator*(complex64 a, complex64 b) {
    return complex64(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
  }
  static complex64 polar(float r, float t) { return {r * metal::cos(t), r * metal::sin(t)}; }
};
constexpr complex64 operator+(complex64 a, complex64 b) { return {a.re + b.re, a.im + b.im}; }
constexpr complex64 operator-(const complex64 a) { return {-a.re, -a.im}; }
constexpr bool operator==(thread const complex64& a, thread const complex64& b) { return a.re == b.re && a.im == b.im; }
constant complex64 kImaginary(0.0f, 1.0f);
constant complex64 kRoots[2] = {{1.0f, 0.0f}, complex64(0.0f, -1.0f)};

kernel void classes(device complex64* x [[buffer(0)]], device float* out [[buffer(1)]],
                    metal::uint i [[thread_position_in_grid]]) {
  threadgroup complex64 shared[4];
  complex64 a = x[i];
  shared[i] = a * kImaginary;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  complex64 b = shared[(i + 1) % 4];
  b += complex64(1);
  x[i] += b + -a.conj();
  thread float complex64::*part = &complex64::im;
  out[i] = a.*part + (a ? 10 : 0) + (a == a) + kRoots[1].im;
  metal::float2 v = complex64::polar(2, 0);
  out[4 + i] = v.x + complex64(metal::float2(3, 4)).im;
}

// feature: partial specializations, parameter packs, static members, base classes
template <typename T, int N = 4, bool = (N > 2)> struct Fragment;
template <typename T, int N> struct Fragment<T, N, true> {
  typedef metal::vec<T, N> type;
  enum { count = N };
  template <typename U> static type load(device const U* p) {
    type r;
#pragma unroll
    for (short i = 0; i < N; i++) r[i] = T(p[i]);
    return r;
  }
};
template <typename T, int N> struct Fragment<T, N, false> {
  using type = T;
  static constexpr constant int count = 1;
  template <typename U> static T load(device const U* p) { return static_cast<T>(*p); }
};
template <typename... Ts> struct TypeList {};
template <typename T> struct SizeOf;
template <typename... Ts> struct SizeOf<TypeList<Ts...>> { static constexpr constant size_t value = (sizeof(Ts) + ... + 0); };
template <typename T, typename... R> T first_of(T a, R...) { return a; }
template <int... I> struct Sequence { static constexpr int sum() { int s = 0; ((s += I), ...); return s; } };
template <typename T, metal::enable_if_t<metal::is_integral_v<T>, int> = 0> float kind_of(T) { return 1; }
template <typename T, metal::enable_if_t<metal::is_floating_point<T>::value>* = nullptr> float kind_of(T) { return 2; }
template <typename Derived> struct Base {
  float twice() const thread { return 2 * static_cast<thread const Derived*>(this)->value(); }
};
struct Leaf : Base<Leaf>, complex64 {
  Leaf(float v) : complex64(v, v + 1) {}
  float value() const thread { return re + im; }
};
kernel void templates(device float* out [[buffer(0)]], device const uchar* in [[buffer(1)]]) {
  using F4 = Fragment<float>;
  F4::type v = F4::load(in);
  out[0] = v.x + v.w * 10 + F4::count;
  out[1] = Fragment<half, 2>::load(in + 1) + Fragment<half, 2>::count;
  out[2] = SizeOf<TypeList<float, metal::half4, char>>::value;
  out[3] = first_of(1.5f, 2, 'c') + Sequence<1, 2, 3>::sum() + kind_of(3u) + kind_of(1.0h);
  out[4] = outer::apply<outer::Op::Sub>(5, 3) + outer::apply<o::Op::Mul>(2, 3) + o::log2i(1000);
  out[5] = Leaf(1).twice() + o::kHeight;
  out[6] = o::table[1][2] + o::weights[1] + (o::kBits[1] | o::kBits[3]) + sizeof(STRINGIFY(abc));
  const auto generic = [](auto... x) { return (x * ... * 1); };
  out[7] = generic(2, 3, 4.5f);
}

// feature: references and pointers to arrays, aliases of pointers with an address space
using gptr = device float*;
typedef threadgroup float (&tile_ref)[4][5];
typedef const device packed_float3* points_t;
static void fill_tile(threadgroup float (*t)[5], uint2 at, float v) { t[at.y][at.x] = v; }
static float read_tile(threadgroup const float (&t)[4][5], uint2 at) { return t[at.y][at.x]; }
static float sum_tile(tile_ref t) {
  float s = 0;
  for (auto& row : t)
    for (int k = 0; k < 4; ++k) s += row[k];
  return s;
}
template <typename T, size_t N> constexpr size_t length_of(thread const T (&)[N]) { return N; }
static void swap(thread float& a, thread float& b) { float c = a; a = b; b = c; }
static float norm(thread const metal::float4x4* m, int c) { return metal::length(m[0][c]); }
kernel void arrays(device float* out [[buffer(0)]], points_t points [[buffer(1)]], constant metal::float4x4& m [[buffer(2)]],
                   metal::ushort2 p [[thread_position_in_threadgroup]], ushort n [[thread_index_in_threadgroup]]) {
  threadgroup float tile[4][5], other[4][5];
  threadgroup float4 (&quads)[5] = *reinterpret_cast<threadgroup float4 (*)[5]>(&other);
  threadgroup float* flat = &other[0][0];
  fill_tile(tile, metal::uint2(p), n);
  flat[n] = n * 2;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  gptr o = out + n;
  float local[3] = {3, 1, 2};
  swap(local[0], local[2]);
  metal::float4x4 mine = m;
  const float s = sum_tile(tile) + quads[1].y;
  *o = read_tile(tile, metal::uint2(p.yx)) + s + local[0] * length_of(local) + norm(&mine, 1);
  metal::float3 q(points[n]);
  o[16] = q.z - points[n][0] + (points + 1)->y;
  gptr* where = &o;
  (*where)[32] = (n & 1) ? metal::float3(*(points + 2)).x : 0.0;
}

// feature: alignment of threadgroup variables
kernel void alignments(coherent(device) device float* out [[buffer(0)]], metal::uint i [[thread_position_in_threadgroup]]) {
  threadgroup __attribute__((aligned(16))) float a[64];
  threadgroup alignas(16) float b[8], b2;
  alignas(16) threadgroup float c[1 << 2];
  threadgroup float d[16 >> 2] __attribute__((aligned(16)));
  threadgroup float e __attribute__((aligned(sizeof(float4))));
  threadgroup Fragment<float, 4>::type f[2];
  volatile threadgroup int g;
  threadgroup metal::atomic<uint> u[3];
  threadgroup float(*p)[32] = (threadgroup float(*)[32])a;
  if (i == 0) {
    *(threadgroup float4*)a = float4(1, 2, 3, 4);
    b[0] = 2, b2 = 7, c[0] = 3, d[0] = 4, e = 5, f[0].y = 6, g = 8;
    metal::atomic_store_explicit(&u[1], 9u, metal::memory_order_relaxed);
  }
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  out[i] = a[0] + b[0] + b2 + c[0] + d[0] + e + f[0].y + g + p[0][3] +
           metal::atomic_load_explicit(&u[1], metal::memory_order_relaxed);
}

// feature: kernel templates with template template parameters
template <typename T> struct Twice { T operator()(T x) const { return x + x; } };
template <typename T, int N = 3> struct Power { T operator()(T x) const { T r = 1; for (int i = 0; i < N; ++i) r *= x; return r; } };
template <template <typename> class First, template <typename, int> class Second, typename T>
[[kernel]] void composed(device T* x [[buffer(0)]], metal::uint i [[thread_position_in_threadgroup]]) {
  threadgroup T shared[8 << 2];
  shared[i] = First<T>()(x[i]);
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  x[i] = Second<T, 2>{}(shared[i]);
}
template [[host_name("composed_float")]] [[kernel]] decltype(composed<Twice, Power, float>) composed<Twice, Power, float>;

// feature: literals of every kind, casts, bit-fields, assignments to swizzles
union Bits { float f; uint u; uchar b[4]; metal::ushort2 h; };
struct Flags { uint a : 3, b : 5; int c : 4; uint : 4; uint d : 16; };
kernel void literals(device float* out [[buffer(0)]], device uint* bits [[buffer(1)]]) {
  out[0] = 0x1.8p3 + 1e-2f + .5f + 2.f + 1.0h + 1.5bf + 0x1p-2h;
  out[1] = 0b1011 + 017 + 'a' + 100'000u + 7ul + 0xFFul + 3l;
  out[2] = INFINITY > MAXFLOAT && HUGE_VALF == INFINITY && metal::isnan(NAN) && MAXHALF == 65504.0h;
  out[3] = M_PI_F + M_PI_H + half(M_SQRT2_F) + FLT_EPSILON + HALF_MAX;
  Bits u;
  u.f = 1.0f;
  u.b[0] = 1;
  bits[0] = u.u + u.h.y;
  Flags f = {};
  f.a = 9;
  f.b = 31;
  f.c = -3;
  f.d += 70000;
  bits[1] = f.a + f.b * 10 + uint(-f.c) * 1000 + f.d * 10000;
  metal::float4 v = metal::float4(1);
  v.xz = metal::float2(5, 6);
  v.rgb.g;
  v.wy += v.xx;
  v.zw = v.wz;
  (v.x)++, --v.y;
  metal::half3 h = metal::half3(v.bgr);
  h.yz *= 2;
  thread metal::float4* pv = &v;
  pv->a = h.y, (*pv).r *= 2;
  out[4] = v.x + 10 * v.y + 100 * v.z + 1000 * v.w;
  const bool2 c = bool2(true, false);
  metal::int2 w = metal::select(metal::int2(1, 2), metal::int2(3, 4), c);
  w = c.x ? w : -w;
  w[1] <<= 2;
  w ^= 1;
  w = ~w % 5;
  out[5] = w.x * 10 + w.y + metal::any(w == w.yx) + all(metal::isfinite(v));
  out[6] = as_type<half2>(0x3c004000u).x + as_type<float>(0x3f800000) + as_type<uchar4>(0x01020304u)[3];
  out[7] = (float)(int)-2.7f + float(uint(3.9f)) + int(half(2.5)) + (uchar)(300 & 0xff) + char(200) + static_cast<ushort>(-1);
  bits[2] = metal::as_type<uint>(metal::uchar4(1, 2, 3, 4)) + (1u << 31 >> 31) + (-7 % 3 + 7) + (-7 / 2 + 7);
  const metal::vec<float, 3> three{1, 2, 3};
  const metal::vec<ushort, 4> four = metal::vec<ushort, 4>(ushort2(three.xy == three.yx), 1, 2).z;
  out[8] = three.zyx.y + four.w + metal::float2x2(1.0f)[0][0];
  size_t n = sizeof(metal::float3) + sizeof(packed_half3) + alignof(metal::half4) + sizeof(half) * sizeof(Bits);
  out[9] = n;
}

// feature: every loop pragma, switches, mutable lambdas, kernels defined by macros
#define DEFINE_KERNEL(NAME, TYPE, EXPR)                                                     \
  kernel void CONCAT(k, NAME)(device TYPE* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { \
    TYPE v = x[i];                                                                          \
    x[i] = EXPR;                                                                            \
  }
using namespace metal;
DEFINE_KERNEL(square, float, v* v)
DEFINE_KERNEL(negate, int, -v)
DEFINE_KERNEL(not, uchar, ~v)
#undef DEFINE_KERNEL
[[kernel, max_total_threads_per_threadgroup(64)]] void flow(device float* restrict out [[buffer(0)]],
                                                             constant int& n [[buffer(1)]]) {
#pragma clang fp contract(fast)
  float s = 0;
  int i = 0;
  PRAGMA_UNROLL for (int k = 0; k < 4; ++k) s += k;
#pragma unroll(4)
  for (int k = 0; k < n; ++k) { if (k == 2) continue; s += k; }
#pragma clang loop vectorize(enable) interleave(enable) unroll(disable)
  for (int k = 0; k < n; ++k) s += 0.5f;
#pragma METAL internals : enable
#pragma mark - loops
  do s -= 1; while (++i < 3);
  while (true) { if (i++ > 10) break; else continue; }
  [[unroll]] for (ushort k = 0; k < 2; ++k) { s += 1; }
  auto add = [&, two = 2](float x) mutable -> float { s += x * two++; return s; };
  add(1), add(2);
  if (const int m = n * 2; m > 4) s += m;
  switch (n) { case 0: case 1: s = -1; break; case 5: { s += 100; [[fallthrough]]; } case 6: s += 1000; break; default: s = 0; }
  out[0] = s;
  out[1] = i, out[2] = n > 3 ? n > 4 ? 2 : 1 : 0;
  int counts[3] = {}; int2 pairs[] = {{1, 2}, int2(3), 4};
  for (thread int2& p : pairs) counts[p.x % 3] += p.y;
  out[3] = counts[0] + 10 * counts[1] + 100 * counts[2];
  struct { float a; struct { int b[2]; } in; } local = {1.5f, {{2, 3}}};
  out[4] = local.a + local.in.b[1];
  constexpr auto square = [](int x) constexpr { return x * x; };
  static_assert(square(3) == 9, "constexpr lambda");
  float parts[square(2)];
  for (int k = 0; k < 4; k++) parts[k] = k;
  out[5] = parts[3] + sizeof(parts);
}

// feature: buffers that depend on function constants
constant bool has_bias [[function_constant(0)]];
constant int activation [[function_constant(1)]];
constant float2 scale_tmp [[function_constant(2)]];
constant float2 scale = is_function_constant_defined(scale_tmp) ? scale_tmp : float2(1, 0);
constant bool is_relu = activation == 1, is_square = activation == 2;
constant bool no_bias = !has_bias;
kernel void gated(device float* out [[buffer(0)]], device const float* in [[buffer(1)]],
                  device const float* bias [[buffer(2), function_constant(has_bias)]],
                  constant float& fixed_bias [[buffer(2), function_constant(no_bias)]],
                  uint i [[thread_position_in_grid]]) {
  float v = in[i] * scale.x + scale.y;
  if (has_bias) v += bias[i]; else v += fixed_bias;
  if (is_relu) v = max(v, 0.0f);
  else if (is_square) v *= v;
  out[i] = v;
}

// feature: rarely used SIMD-group functions
kernel void simd_corners(device float* out [[buffer(0)]], ushort lane [[thread_index_in_simdgroup]],
                         uint width [[threads_per_simdgroup]], uint quads [[quadgroups_per_threadgroup]]) {
  out[lane] = simd_shuffle_and_fill_up(float(lane), 100.0f + lane, ushort(3));
  out[32 + lane] = simd_shuffle_and_fill_down(float2(lane), float2(lane, -1.0f), ushort(2)).x;
  out[64 + lane] = simd_prefix_exclusive_sum(lane) + simd_prefix_inclusive_product(1.0f);
  simd_vote v = simd_ballot(lane % 3 == 0);
  out[96 + lane] = popcount(uint(ulong(simd_vote::vote_t(v)))) + v.any() * 100 + v.all() * 1000;
  if (lane < 5) out[128 + lane] = popcount(uint(static_cast<ulong>(simd_active_threads_mask()))) + simd_is_first() * 10;
  out[160 + lane] = simd_broadcast(lane, 7) + quad_sum(lane) * 100 + float(quad_broadcast(half(lane), 1));
  out[192 + lane] = simd_shuffle_rotate_down(lane, 31) + (simd_all(lane < 32) && !simd_any(width != 32)) * 100 + quads * 1000;
  out[224 + lane] = simd_xor(uint(lane)) + simd_min(half2(lane, 3)).x + simd_max(char(lane)) + simd_product(lane ? 1.0f : 2.0f);
  simdgroup_matrix<half, 8, 8> a = make_filled_simdgroup_matrix<half, 8, 8>(0.5h), b(2.0h);
  simdgroup_float8x8 c = simdgroup_float8x8(0);
  simdgroup_multiply_accumulate(c, a, b, c);
  out[256 + lane] = c.thread_elements()[1];
  atomic_thread_fence(mem_flags::mem_device, memory_order_relaxed);
}
