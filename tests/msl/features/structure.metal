#include <metal_stdlib>
#include <simd/simd.h>
#pragma METAL internals : enable
#pragma METAL fp math_mode(safe)
using namespace metal;

// feature: function constants, and constants that depend on them
constant bool has_bias [[function_constant(0)]];
constant int kind [[function_constant(10)]];
constant short groups_of [[function_constant(20)]];
constant int tile = is_function_constant_defined(kind) ? kind * 2 : 5;
constant bool both = has_bias && tile > 4;
kernel void function_constants(device float* out [[buffer(0)]],
                               constant int& extra [[buffer(1), function_constant(has_bias)]]) {
  out[0] = has_bias ? 1 : 0;
  out[1] = kind;
  out[2] = tile;
  out[3] = both;
  out[4] = is_function_constant_defined(groups_of) ? groups_of : -1;
  out[5] = extra;
}

// feature: class specializations and overloads by address space
template <typename T> struct pointer_element {};
template <typename T> struct pointer_element<thread T*> { using type = remove_cv_t<T>; };
template <typename T> struct pointer_element<device T*> { using type = remove_cv_t<T>; };
template <typename T> struct pointer_element<constant T*> { using type = remove_cv_t<T>; };
template <typename T> struct pointer_element<threadgroup T*> { using type = remove_cv_t<T>; };
struct cfloat {
  float re, im;
  constexpr cfloat() : re(0), im(0) {}
  constexpr cfloat() threadgroup : re(0), im(0) {}
  constexpr cfloat(float a, float b) : re(a), im(b) {}
  template <typename T, typename = typename enable_if<is_convertible_v<T, float>>::type>
  constexpr cfloat(T x) thread : re(x), im(0) {}
  template <typename T, typename = typename enable_if<is_convertible_v<T, float>>::type>
  constexpr cfloat(T x) threadgroup : re(x), im(0) {}
  template <typename T, typename = typename enable_if<is_convertible_v<T, float>>::type>
  constexpr cfloat(T x) constant : re(x), im(0) {}
  template <typename T> constexpr explicit operator T() const thread { return static_cast<T>(re); }
  template <typename T> constexpr explicit operator T() const device { return static_cast<T>(re); }
  template <typename T> constexpr explicit operator T() const constant { return static_cast<T>(re); }
};
constexpr cfloat operator*(cfloat a, cfloat b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
inline float head(const device float* p) { return p[0]; }
inline float head(threadgroup const float* p) { return p[0]; }
inline float head(thread const float* q) { return q[0]; }
kernel void address_spaces(device float* out [[buffer(0)]]) {
  cfloat z = cfloat(1, 2) * cfloat(3, -1) * 2.0f;
  using T = pointer_element<device half*>::type;
  T x = 1.5h;
  thread float local[2] = {7, 8};
  out[0] = z.re;
  out[1] = z.im;
  out[2] = x;
  out[3] = head(local) + head(out);
}

// feature: global overloads of Metal library functions
inline float3 max(float3 a, float b, int n) { return metal::max(a, float3(b + n)); }
namespace metal {
inline float my_own(float x) { return exp2(x) + 1; }
namespace fast { inline float mine(float x) { return x + 2; } }
}  // namespace metal
kernel void overloaded_names(device float* out [[buffer(0)]]) {
  out[0] = max(1.0f, 3.0f);
  out[1] = max(float3(1, 2, 3), 1.0f, 1).x;
  out[2] = ::metal::exp2(3.0f);
  out[3] = my_own(1) + metal::fast::mine(1) + fast::exp2(1.0f) + precise::max(1.0f, 2.0f);
}

// feature: explicit instantiations by signature, typedef and decltype
template <typename T> kernel void doubled(device T* out [[buffer(0)]], constant T& x [[buffer(1)]]) { out[0] = x + x; }
template [[host_name("doubled_i32")]] [[kernel]] void doubled<int>(device int* out [[buffer(0)]], constant int&);
typedef decltype(doubled<float>) doubled_t;
template [[host_name("doubled_f32")]] kernel doubled_t doubled<float>;
template [[host_name("doubled_" "f16")]] [[kernel]] decltype(doubled<half>) doubled<half>;

// feature: buffer indices that are constant expressions
enum Slots { kFirst = 1, kSecond, kThird = kSecond + 2 };
constant constexpr int kGroup = 16 * 4;
kernel void computed_indices(device float* out [[buffer(kThird - 4)]], device const float* x [[buffer(Slots::kFirst)]])
    [[max_total_threads_per_threadgroup(kGroup)]] {
  out[0] = x[0];
}
// feature: a thread limit that depends on template arguments
template <int M, int N>
[[kernel, max_total_threads_per_threadgroup(M * N * 32)]] void limited(device float* out [[buffer(0)]]) { out[0] = M; }
template [[host_name("limited_2_4")]] [[kernel]] decltype(limited<2, 4>) limited<2, 4>;

// feature: unions, bit fields, enum classes, structured bindings
union Pun { uint4 u; half h[8]; float f[4]; };
struct Packed { uint low : 4; uint mid : 8; uint high : 20; };
enum class Mode : uchar { off = 1, on = 3 };
struct Two { float first; int second; };
kernel void aggregates(device float* out [[buffer(0)]]) {
  Pun a, b;
  a.u = uint4(0x3f800000u, 0, 0, 0);
  b = a;
  b.h[2] = 2.0h;
  out[0] = b.f[0];
  out[1] = b.h[2];
  Packed p = {3, 200, 70000};
  p.mid += 100;
  out[2] = p.low + p.mid + p.high;
  out[3] = int(Mode::on) + (sizeof(Mode) == 1);
  auto [x, n] = Two{1.5f, 4};
  out[4] = x * n;
}

// feature: lambdas, variadic templates, folds, if constexpr, static members
template <typename... T> float total(T... x) { return (0.0f + ... + float(x)); }
template <typename T, int N = 4> struct Tile {
  static constant constexpr int size = N;
  using value_type = T;
  T data[N];
  thread T& operator[](int i) thread { return data[i]; }
  template <typename F> void each(F f) thread { for (int i = 0; i < N; ++i) data[i] = f(data[i], i); }
};
template <typename T> float width() {
  if constexpr (is_same_v<T, half>) return 16; else return sizeof(T) * 8;
}
kernel void modern(device float* out [[buffer(0)]]) {
  Tile<float> t = {{1, 2, 3, 4}};
  const float k = 10;
  t.each([=](float v, int i) { return v * k + i; });
  t[0] += 5;
  out[0] = total(t[0], t[1], t[2], t[3], Tile<int, 7>::size);
  auto fact = [](auto n) { decltype(n) r = 1; while (n > 1) r *= n--; return r; };
  out[1] = fact(5);
  out[2] = width<half>() + width<char>();
  array<float, 3> a = {1, 2, 3};
  float s = 0;
  for (auto v : a) s += v;
  out[3] = s + a.size();
}

// feature: program-scope tables, array parameters, function pointers as template arguments
constant float kTable[] = {0.5, 1.5, 2.5};
constant half2 kPair = half2(1.0h, 2.0h);
static constant uint kMasks[2][2] = {{1, 2}, {3, 4}};
template <typename block_q, void (*decode)(device const block_q*, short, thread float4&)>
float decoded(device const block_q* b) { float4 r; decode(b, 1, r); return r.x + r.w; }
void decode_four(device const float4* b, short il, thread float4& reg) { reg = b[0] * il; }
float sum3(thread const float (&x)[3]) { return x[0] + x[1] + x[2]; }
kernel void tables(device float* out [[buffer(0)]], device const float4* in [[buffer(1)]]) {
  out[0] = kTable[0] + kTable[2] + kPair.y + kMasks[1][0];
  out[1] = decoded<float4, decode_four>(in);
  float x[3] = {1, 2, 3};
  out[2] = sum3(x);
}

// feature: loop pragmas, argument structs, pointers to pointers, address arithmetic
#define UNROLL _Pragma("clang loop unroll(full)")
struct Arguments { device const float* x [[id(0)]]; constant uint* n [[id(1)]]; float scale [[id(2)]]; };
kernel void arguments(device float* out [[buffer(0)]], constant Arguments& args [[buffer(1)]],
                      device const float* const device* many [[buffer(2)]]) {
  float s = 0;
  UNROLL
  for (uint i = 0; i < 4; ++i) s += args.x[i];
#pragma unroll(2)
  for (uint i = 0; i < *args.n; ++i) s += many[i][0];
  device const char* raw = (device const char*)args.x;
  out[0] = s * args.scale;
  out[1] = *(device const float*)(raw + 4);
  out[2] = reinterpret_cast<device const uint*>(args.x)[0];
}
