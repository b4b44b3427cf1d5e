#include <metal_stdlib>
#include <metal_logging>

// feature: names qualified only by metal::, both forms of the kernel attribute
[[kernel]] void qualified(metal::uint i [[thread_position_in_grid]], device float* out [[buffer(0)]]) {
  metal::float3 v = metal::float3(1, 2, 2);
  static_assert(metal::is_same_v<decltype(v.x), float>, "a component");
  out[0] = metal::length(v) + metal::clamp(5.0f, 0.0f, 1.0f) + i;
  out[1] = metal::numeric_limits<metal::half>::infinity() > 65504.0f ? 1 : 0;
  out[2] = metal::select(1.0f, 2.0f, metal::isinf(INFINITY) && HUGE_VALF > MAXFLOAT);
  metal::conditional_t<(sizeof(size_t) == 8), ulong, uint> wide = ~0ul;
  out[3] = wide >> 60;
}
[[host_name("renamed")]] kernel void another_name(device float* out [[buffer(0)]]) { out[0] = 7; }
using namespace metal;

// feature: overload resolution prefers half to float over half to a class
struct pair_t {
  float a, b;
  template <typename T, typename = enable_if_t<is_convertible_v<T, float>>> constexpr pair_t(T x) : a(x), b(1) {}
};
inline float which(float) { return 1; }
inline float which(pair_t) { return 2; }
template <typename T> struct kind { static constexpr constant int value = 0; };
template <> struct kind<half> { static constexpr constant int value = 3; };
struct truth { char x; constexpr operator bool() const thread { return true; } };
kernel void overloads(device float* out [[buffer(0)]], device const half* x [[buffer(1)]]) {
  out[0] = which(x[0]) + 10 * which(half(1));
  out[1] = kind<decltype(x[0] * x[1])>::value + 10 * kind<remove_cv_t<remove_reference_t<decltype(x[0])>>>::value;
  out[2] = float(half(truth{}));
  half3 v = half3(x[0], 2.0f, 3);
  out[3] = v.x + abs(-v.y) + (x[0] > 0.5h ? v.z : 0);
  half sums[2] = {x[0] * 2.0f, 1};
  out[4] = (sums[0] *= 1.5f, sums[0]) + as_type<ushort>(sums[1]);
}

// feature: overloaded kernel templates
template <typename T> kernel void fill(device T* out [[buffer(0)]]) { out[0] = T(1); }
template <typename T, int N> kernel void fill(device T* out [[buffer(0)]]) {
  threadgroup T shared[N];
  shared[0] = T(N);
  out[0] = shared[0];
}
template <typename T, bool NEGATE> kernel void fill(device T* out [[buffer(0)]], constant T& x [[buffer(1)]]) {
  out[0] = NEGATE ? -x : x;
}
template [[host_name("fill_one")]] kernel void fill<float>(device float*);
template [[host_name("fill_n")]] [[kernel]] decltype(fill<float, 5>) fill<float, 5>;
template [[host_name("fill_x")]] kernel void fill<float, true>(device float*, constant float&);

// feature: comparisons and conditions in template arguments
template <typename T, enable_if_t<sizeof(T) < 4, bool> = true> float width_of(T) { return 1; }
template <typename T, enable_if_t<sizeof(T) >= 4, bool> = true> float width_of(T) { return 2; }
template <int A, int B> struct product { static constexpr constant int value = A * B; };
template <bool WIDE> float stride_of() {
  constexpr int narrow = 3, wide = 5;
  using P = product<2, WIDE ? wide : narrow>;
  return P::value;
}
kernel void template_arguments(device float* out [[buffer(0)]]) {
  out[0] = width_of(half(1)) + 10 * width_of(1u);
  out[1] = stride_of<true>() + 100 * stride_of<false>();
}

// feature: unions with vectors in anonymous structs
typedef struct {
  union {
    struct { half d, m; };
    half2 dm;
  };
  uchar qs[4];
} block_t;
typedef struct { uint n; union { float f; uint u; } value; } tagged_t;
kernel void blocks(device float* out [[buffer(0)]], device block_t* b [[buffer(1)]]) {
  block_t mine = b[0];
  mine.dm *= 2;
  b[1] = mine;
  tagged_t t = {1, {0.5f}}, u = t;
  u = t;
  out[0] = b[1].d + b[1].m * 10 + b[1].qs[3] * 100;
  out[1] = u.value.u == 0x3f000000u;
}

// feature: pragmas with macro arguments, loop attributes
#define AT_MOST(a, b) ((a) < (b) ? (a) : (b))
#define EIGHT 8
kernel void pragmas(device float* out [[buffer(0)]]) {
  float s = 0;
#pragma unroll (AT_MOST(EIGHT, 4))
  for (int i = 0; i < EIGHT; ++i) s += i;
#pragma clang loop unroll_count(EIGHT)
  for (int i = 0; i < EIGHT; ++i) s += i;
  [[unroll]] for (int i = 0; i < 2; ++i) s += 1;
  _Pragma("clang loop unroll(full)") for (int i = 0; i < 2; ++i) s += 1;
  out[0] = s;
}

// feature: language features used by Apple's standard library
constexpr constant metal::os_log logger("subsystem", "category");
namespace metal {
inline bfloat triple(bfloat x) { return static_cast<bfloat>(__metal_fma(float(x), 3.0f, 0.0f)); }
template <typename T> struct is_empty : bool_constant<__is_empty(T)> {};
template <typename...> struct make_void { typedef void type; };
template <typename... T> using void_t = typename make_void<T...>::type;
}  // namespace metal
template <typename T>
constexpr constant bool is_wide = _disjunction<is_same<T, long>, is_same<T, ulong>>::value;
kernel void internals(device float* out [[buffer(0)]]) {
  const uniform<int> n = make_uniform(4);
  if (n < 0) logger.log_debug("never %d", n);
  out[0] = metal::triple(bfloat(2)) + n;
  out[1] = is_wide<long> + __metal_fmax(1.0f, 2.0f, __METAL_MAYBE_FAST_MATH__) + is_empty<pair_t>::value;
  out[2] = is_same_v<remove_addrspace_t<float>, float>;
}

// feature: array parameters, auto& with an address space, pointer casts, packed elements
inline float sum_of(constant const int* shape, thread const float v[3]) { return shape[1] + v[2]; }
kernel void parameters(device float* out [[buffer(0)]], constant const int shape[2] [[buffer(1)]],
                       device const packed_float3* points [[buffer(2)]]) {
  float v[3] = {1, 2, 3};
  thread auto& second = v[1];
  constant auto& first = shape[0];
  device const auto* p = points + 1;
  second += first;
  float3 q = *p;
  out[0] = sum_of(shape, v) + v[1];
  out[1] = q.z + (*p)[0] + p->y;
  out[2] = ((device const float*)points)[4] + reinterpret_cast<device const float2*>(points)[0].y;
}

// feature: fold expressions, capturing lambdas, template template parameters, decltype(auto)
template <template <typename> class Op, typename T> T twice_by(T a, T b) { return Op<T>()(Op<T>()(a, b), b); }
template <typename T> struct add_op { T operator()(T a, T b) { return a + b; } };
template <typename... T> constexpr int count_of(T...) { return sizeof...(T); }
template <int... I> constexpr int sum_up() { return (I + ... + 0); }
template <typename F> decltype(auto) apply(F f) { return f(2); }
#define MAKE(NAME, OP) inline float NAME##_of(float a, float b) { return a OP b; }
MAKE(times, *)
MAKE(minus, -)
enum class flags : uint { none = 0, first = 1u << 3 };
kernel void generic(device float* out [[buffer(0)]]) {
  int k = 3;
  auto scale = [&k](int x) { k += 1; return x * k; };
  out[0] = twice_by<add_op>(1.0f, 2.0f) + count_of(1, 2.0f, half(3)) + sum_up<1, 2, 3>();
  out[1] = apply(scale) + k + times_of(2, 3) + minus_of(5, 1);
  out[2] = as_type<uint>(float(0)) | uint(flags::first);
}

// feature: compare-exchange on the bits of a float, atomics in structs of pointers
kernel void add_float(device atomic_uint* bits [[buffer(0)]], device atomic<float>* total [[buffer(1)]],
                      uint i [[thread_position_in_grid]]) {
  uint old = atomic_load_explicit(bits, memory_order_relaxed), next;
  do {
    next = as_type<uint>(as_type<float>(old) + float(i));
  } while (!atomic_compare_exchange_weak_explicit(bits, &old, next, memory_order_relaxed, memory_order_relaxed));
  atomic_fetch_add_explicit(total, 0.5f, memory_order_relaxed);
}

// feature: sequences of integers as template arguments
template <typename T, T... I> constexpr T sum_of(integer_sequence<T, I...>) { return (I + ...); }
kernel void sequences(device float* out [[buffer(0)]]) {
  out[0] = sum_of(make_integer_sequence<int, 5>());
  out[1] = sum_of(make_index_sequence<4>()) + index_sequence<7, 8>::size();
  out[2] = index_sequence_for<float, half, int>::size();
}
