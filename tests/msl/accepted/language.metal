// Valid Metal that resembles rejected C++ or is only just legal.
#include <metal_stdlib>
#include <metal_simdgroup>
#include <metal_simdgroup_matrix>
using namespace metal;
#pragma METAL internals : enable

namespace detail {
enum class Mode : uint { add = 0, mul };
enum : int { kFirst = 1, kSecond };
template <typename T>
struct holder;
template <>
struct holder<float> {
  typedef float type;
  static float get() { return 1; }
  static constant constexpr const int width = 4;
};
template <typename T>
struct is_float : bool_constant<is_same_v<T, float>> {};
union Bits {
  float f;
  uint u;
};
struct Base {
  int n;
};
struct Derived : Base {
  Derived() = default;
  Derived(const thread Derived&) = delete;
};
}  // namespace detail

// Metal 2.4 allows recursion in compute functions.
uint fibonacci(uint n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
// Metal 2.3 allows function pointers.
float twice(float x) { return 2 * x; }
float apply(float (*f)(float), float x) { return f(x); }
template <typename F>
float visit(F f, float x) { return f(x); }
template <typename... T>
auto total(T... x) { return (x + ...); }
template <int N, typename T>
T power(T x) {
  if constexpr (N == 0) {
    return T(1);
  } else {
    return x * power<N - 1>(x);
  }
}
constant bool with_bias [[function_constant(0)]];
constant uint rows [[function_constant(1)]];
constant uint rows_or_one = is_function_constant_defined(rows) ? rows : 1;
inline float product(float a, float b) { return a * b; }
struct Value {
  int x;
  bool operator<(Value o) const { return x < o.x; }
  thread Value& operator+=(Value o) {
    x += o.x;
    return *this;
  }
};

[[max_total_threads_per_threadgroup(256)]] kernel void language(
    device float* out [[buffer(0)]], device const float* bias [[buffer(1), function_constant(with_bias)]],
    device const packed_float3* triples [[buffer(30)]], threadgroup float* scratch [[threadgroup(30)]],
    uint3 at [[thread_position_in_grid]], ushort3 group [[threadgroup_position_in_grid]],
    unsigned int lane [[thread_index_in_simdgroup]], uint2 size [[threads_per_threadgroup]],
    uint32_t index [[thread_index_in_threadgroup]]) {
  const uint i = at.x;
  constexpr int kCount = 2 * detail::holder<float>::width;
  float values[kCount] = {};
  int a = 3, b = 4;
  a *b;
  const auto add = [=](float x) { return x + a; };
  auto [first, second] = detail::Base{1}.n > 0 ? Value{1} < Value{2} ? array<float, 2>{1.0f, 2.0f}
                                                                    : array<float, 2>{3.0f, 4.0f}
                                               : array<float, 2>{5.0f, 6.0f};
  detail::Bits bits;
  bits.f = values[0];
  long big = 1l << 40;
  unsigned long bigger = 1ul << 40;
  half h = 1.5h;
  float e = 1e-3, hex = 0x1p-3f;
  switch (detail::Mode(i & 1)) {
    case detail::Mode::add:
      out[i] = add(e);
      break;
    default:
      out[i] = apply(twice, hex) + visit(add, 1) + visit([](float x) { return -x; }, 2);
  }
  simdgroup_float8x8 m = simdgroup_float8x8(0);
  simdgroup_matrix<half, 8, 8> n;
  simdgroup_load(n, (device half*)out);
  [[maybe_unused]] float renewed = 0, thrown = 1, deleted = 2;
#pragma unroll
  for (int k = 0; k < kCount; ++k) values[k] = power<3>(float(k));
  _Pragma("clang loop unroll(full)") for (int k = 0; k < kCount; k++) out[i] += values[k];
  if (with_bias) out[i] += bias[i];
  float4 v = float4(1, 2, 3, 4);
  v.xyz = v.zyx;
  v.wx += v.xx;
  out[i] += total(1.0f, float(h), float(big), float(bigger)) + v.rgb.x + float(fibonacci(5)) + product(first, second);
  out[i] += bits.u + triples[i][0] + scratch[index] + rows_or_one + group.x + lane + size.x + renewed + thrown + deleted;
}
template <typename T, int N>
[[host_name("not_this_one")]] [[kernel]] void templated(device T* out [[buffer(0)]], constant uint& n [[buffer(1)]],
                                                        uint i [[thread_position_in_grid]]) {
  threadgroup T scratch[N];
  scratch[i % N] = T(n);
  out[i] = scratch[0];
}
template [[host_name("templated_f32")]] kernel void templated<float, 8>(device float*, constant uint&, uint);
template [[host_name("templated_f16")]] kernel decltype(templated<half, 16>) templated<half, 16>;
// A functor with the same name as a kernel.
template <typename F>
kernel void functor(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  F same;
  thread F& none = same;
  out[i] = same(out[i]) + none(out[i]);
}
struct Negate {
  float operator()(float x) const { return -x; }
};
template [[host_name("functor_negate")]] kernel decltype(functor<Negate>) functor<Negate>;
kernel void same(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }
kernel void none(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) { out[i] = 1; }
