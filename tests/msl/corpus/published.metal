// Constructs that occur in published kernels and that Apple's compiler accepts.
#include <metal_stdlib>
#include <metal_simdgroup_matrix>
using namespace metal;

// feature: initializers of threadgroup variables, threadgroup arrays as parameters
static float total(threadgroup float shared[32], uint n) {
  float sum = 0;
  for (uint i = 0; i < n; ++i) sum += shared[i];
  return sum;
}
kernel void initial_values(device float* out, uint i [[thread_position_in_threadgroup]]) {
  threadgroup float s[32] = {0};
  threadgroup float t = 0, u[2] = {1, 2};
  s[i] = i;
  if (i == 0) t = 1, u[1] = 3;
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = total(s, 32) + t + u[1];
}

// feature: kernels with the same name as a function they call
namespace special {
template <typename T>
T i0(T x) {
  return x + x;
}
}  // namespace special
using namespace special;
kernel void fmax(device float* out, constant float* a, constant float* b, uint i [[thread_position_in_grid]]) {
  out[i] = fmax(a[i], b[i]);
}
template <typename T>
kernel void i0(device T* out, constant T* x, uint i [[thread_position_in_grid]]) {
  out[i] = i0(x[i]) + special::i0(x[i]);
}
template [[host_name("i0_float")]] kernel void i0<float>(device float*, constant float*, uint);

// feature: `kernel` after `void`
template <typename T>
void kernel counts(device T* out, uint i [[thread_position_in_grid]]) {
  out[i] = T(i + 1);
}
template [[host_name("counts_half")]] void kernel counts<half>(device half*, uint);
[[max_total_threads_per_threadgroup(64)]] void kernel counts_down(device int* out, uint i [[thread_position_in_grid]]) {
  out[i] = -int(i);
}

// feature: matrix type names, and identifiers that resemble them
using simdgroup_type8x8 = simdgroup_float8x8;
typedef simdgroup_matrix<float, 8, 8> simdgroup_tile8x8;
template <typename simdgroup_T8x8>
void simdgroup_add_product_8x8(thread simdgroup_T8x8& d, thread const simdgroup_T8x8& a, thread const simdgroup_T8x8& b) {
  simdgroup_multiply_accumulate(d, a, b, d);
}
kernel void simdgroup_product_8x8(device float* out, const device float* a, const device float* b) {
  simdgroup_type8x8 x, y;
  simdgroup_tile8x8 d = make_filled_simdgroup_matrix<float, 8, 8>(1.0f);
  simdgroup_load(x, a);
  simdgroup_load(y, b);
  simdgroup_add_product_8x8(d, x, y);
  simdgroup_store(d, out);
}

// feature: initializer lists shorter than the vector, vector traits, assert
kernel void lists(device uint* out, constant uint& a, constant uint& b) {
  uint4 v = {a, b, a ^ b};
  half3 h = {half(a), half(b)};
  const int2 zero = {};
  assert(a != b);
  out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w + uint(h.z) + uint(zero.y);
  out[4] = vec_elements<float>::value + 10 * vec_elements<half4>::value;
  out[5] = __is_valid_simdgroup_type<half>::value + 10 * __is_valid_simdgroup_type<long>::value;
}

// feature: a function constant with the name of a C++ function, definitions of static members
constant bool forward [[function_constant(7)]];
template <int N>
struct Tile {
  static constant constexpr int rows = N * 2;
  static constexpr constant float scales[2] = {0.5f, 2.0f};
};
template <int N>
constant constexpr int Tile<N>::rows;
template <int N>
constexpr constant float Tile<N>::scales[2];
struct Shape {
  static constant constexpr int width = 3;
};
constant constexpr int Shape::width;
kernel void constants(device float* out) {
  out[0] = forward ? 1 : -1;
  out[1] = Tile<4>::rows + Shape::width;
  out[2] = Tile<4>::scales[int(out[0] > 0)];
}

// feature: template arguments deduced from the parameters of an explicit instantiation
template <typename T, typename U, int N = 2>
kernel void scaled(device U* out, constant T* x, constant vec<T, 2>& by, uint i [[thread_position_in_grid]]) {
  threadgroup T unused[N];
  unused[0] = by.y;
  out[i] = U(x[i] * by.x + unused[0] + T(N));
}
template [[host_name("scaled_float")]] kernel void scaled(device float*, constant float*, constant float2&, uint);
template [[host_name("scaled_half")]] kernel void scaled(device float* out, constant half* x, constant half2& by,
                                                         uint i [[thread_position_in_grid]]);

// feature: conversion of classes with operator bool to numbers
struct Always {
  char unused;
  constexpr operator bool() const { return true; }
  constexpr operator bool() const threadgroup { return true; }
};
template <typename T, typename Mask>
void choose(device float* out, Mask mask) {
  const T one = static_cast<T>(mask);
  T two = 1;
  two += T(mask) * one;
  out[0] = float(one) + (mask ? float(two) : 0);
}
kernel void from_classes(device float* out) {
  choose<bfloat>(out, Always());
  choose<half>(out + 1, Always());
  choose<float>(out + 2, Always());
}

// feature: numeric_limits specialized for a class
template <typename T>
struct Pair {
  T value;
  uint index;
};
namespace metal {
template <typename T>
struct _numeric_limits_impl<Pair<T>> {
  static constexpr Pair<T> lowest() { return Pair<T>{numeric_limits<T>::lowest(), 7}; }
};
}  // namespace metal
kernel void limits_of_classes(device float* out) {
  const Pair<float> least = numeric_limits<Pair<float>>::lowest();
  out[0] = least.value, out[1] = least.index;
}

// feature: integer division by zero does not trap
template <typename T>
kernel void divisions(device T* quotient, device T* rest, constant T* a, constant T* b,
                      uint i [[thread_position_in_grid]]) {
  quotient[i] = a[i] / b[i];
  rest[i] = a[i] % b[i];
}
template [[host_name("divisions_int")]] kernel decltype(divisions<int>) divisions<int>;
template [[host_name("divisions_ulong")]] kernel decltype(divisions<ulong>) divisions<ulong>;
template [[host_name("divisions_char")]] kernel decltype(divisions<char>) divisions<char>;
template [[host_name("divisions_short")]] kernel decltype(divisions<short>) divisions<short>;
template [[host_name("divisions_int4")]] kernel decltype(divisions<int4>) divisions<int4>;
kernel void divisions_in_groups(device uint* out, constant uint* b, uint i [[thread_position_in_threadgroup]]) {
  threadgroup uint shared[64];
  shared[i] = 100 / b[i];
  threadgroup_barrier(mem_flags::mem_threadgroup);
  out[i] = shared[63 - i];
}

// feature: unions of vectors as parameters and return values
union Bits {
  uint2 words;
  uchar4 bytes[2];
};
static Bits mixed(thread const Bits& a) {
  Bits b = a;
  b.words ^= b.words.yx >> 3;
  return b;
}
kernel void unions(device uint* out, constant uint2& word) {
  Bits a;
  a.words = word;
  const Bits b = mixed(mixed(a));
  out[0] = b.words.x, out[1] = b.bytes[1][0];
}
