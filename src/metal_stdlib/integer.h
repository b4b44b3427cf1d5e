// <metal_integer>.
#pragma once

namespace metal {
template <class T>
MPSX_FN constexpr uint64_t mpsx_bits(T x) {
  return uint64_t(make_unsigned_t<T>(x));
}
typedef __int128 mpsx_int128;
typedef unsigned __int128 mpsx_uint128;
// An integer type that can represent the product of any two values of type T.
template <class T>
using mpsx_wider = conditional_t<sizeof(T) == 8, conditional_t<is_signed_v<T>, mpsx_int128, mpsx_uint128>,
                                 conditional_t<is_signed_v<T>, long, ulong>>;
// Enables a function only for Metal's integer types. Overload resolution does not apply implicit conversions.
template <class T>
using mpsx_if_integer = enable_if_t<is_integral_v<T> && !is_same_v<T, bool>, T>;

template <class T, class U = make_unsigned_t<mpsx_if_integer<T>>>
MPSX_FN constexpr U absdiff(T a, mpsx_not_deduced<T> b) {
  return a < b ? U(U(b) - U(a)) : U(U(a) - U(b));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> popcount(T x) {
  return T(__builtin_popcountll(mpsx_bits(x)));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> clz(T x) {
  return x == 0 ? T(8 * sizeof(T)) : T(__builtin_clzll(mpsx_bits(x)) - 64 + int(8 * sizeof(T)));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> ctz(T x) {
  return x == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzll(mpsx_bits(x)));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> rotate(T x, mpsx_not_deduced<T> n) {
  const unsigned width = 8 * sizeof(T), k = unsigned(n) & (width - 1);
  const uint64_t b = mpsx_bits(x);
  return T(k == 0 ? b : b << k | b >> (width - k));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> reverse_bits(T x) {
  uint64_t b = mpsx_bits(x), r = 0;
  for (unsigned i = 0; i < 8 * sizeof(T); ++i, b >>= 1) r = r << 1 | (b & 1);
  return T(r);
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> extract_bits(T x, uint offset, uint bits) {
  if (bits == 0) return 0;
  const unsigned width = 8 * sizeof(T);
  return T(T(make_unsigned_t<T>(x) << (width - offset - bits)) >> (width - bits));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> insert_bits(T base, mpsx_not_deduced<T> insert, uint offset, uint bits) {
  const uint64_t mask = (bits >= 64 ? ~0ull : (1ull << bits) - 1) << offset;
  return T((mpsx_bits(base) & ~mask) | (mpsx_bits(insert) << offset & mask));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> addsat(T a, mpsx_not_deduced<T> b) {
  T r = 0;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return is_signed_v<T> && b < T(1) ? numeric_limits<T>::min() : numeric_limits<T>::max();
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> subsat(T a, mpsx_not_deduced<T> b) {
  T r = 0;
  if (!__builtin_sub_overflow(a, b, &r)) return r;
  return is_unsigned_v<T> || b > 0 ? numeric_limits<T>::min() : numeric_limits<T>::max();
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> hadd(T a, mpsx_not_deduced<T> b) {
  return T((a >> 1) + (b >> 1) + (a & b & 1));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> rhadd(T a, mpsx_not_deduced<T> b) {
  return T((a >> 1) + (b >> 1) + ((a | b) & 1));
}
// Returns the upper half of the product.
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> mulhi(T a, mpsx_not_deduced<T> b) {
  return T((mpsx_wider<T>(a) * mpsx_wider<T>(b)) >> (8 * sizeof(T)));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> madhi(T a, mpsx_not_deduced<T> b, mpsx_not_deduced<T> c) {
  typedef make_unsigned_t<T> U;
  return T(U(mulhi(a, b)) + U(c));
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> madsat(T a, mpsx_not_deduced<T> b, mpsx_not_deduced<T> c) {
  typedef conditional_t<sizeof(T) == 8, mpsx_int128, long> W;
  if constexpr (is_same_v<make_unsigned_t<T>, ulong> && is_unsigned_v<T>) {
    const mpsx_uint128 s = mpsx_uint128(a) * b + c;  // at most 2^128 - 2^64
    return s > numeric_limits<T>::max() ? numeric_limits<T>::max() : T(s);
  } else {
    const W s = W(a) * W(b) + W(c);
    return s > W(numeric_limits<T>::max()) ? numeric_limits<T>::max()
           : s < W(numeric_limits<T>::min()) ? numeric_limits<T>::min() : T(s);
  }
}
template <class T>
MPSX_FN constexpr mpsx_if_integer<T> abs(T x) {
  if constexpr (is_signed_v<T>)
    return x < 0 ? T(-make_unsigned_t<T>(x)) : x;
  else
    return x;
}
MPSX_FN constexpr int mul24(int a, int b) {
  return int((uint(a) << 8)) / 256 * (int(uint(b) << 8) / 256);
}
MPSX_FN constexpr uint mul24(uint a, uint b) { return (a & 0xffffffu) * (b & 0xffffffu); }
MPSX_FN constexpr int mad24(int a, int b, int c) { return mul24(a, b) + c; }
MPSX_FN constexpr uint mad24(uint a, uint b, uint c) { return mul24(a, b) + c; }
MPSX_VECTOR_UNARY(popcount)
MPSX_VECTOR_UNARY(clz)
MPSX_VECTOR_UNARY(ctz)
MPSX_VECTOR_UNARY(reverse_bits)
MPSX_VECTOR_BINARY(rotate)
MPSX_VECTOR_BINARY(mulhi)
MPSX_VECTOR_BINARY(addsat)
MPSX_VECTOR_BINARY(subsat)
MPSX_VECTOR_BINARY(hadd)
MPSX_VECTOR_BINARY(rhadd)
MPSX_VECTOR_BINARY(mul24)
MPSX_VECTOR_BINARY_TO(absdiff, make_unsigned_t<S>)
MPSX_VECTOR_TERNARY(madhi)
MPSX_VECTOR_TERNARY(madsat)
MPSX_VECTOR_TERNARY(mad24)
template <class A, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN constexpr auto extract_bits(const A& a, uint offset, uint bits) {
  typedef typename mpsx_vector<A>::scalar S;
  return mpsx_map<S>([=](S x) { return extract_bits(x, offset, bits); }, a);
}
template <class A, class B, class = enable_if_t<mpsx_is_vector<A>>>
MPSX_FN constexpr auto insert_bits(const A& a, const B& b, uint offset, uint bits) {
  typedef typename mpsx_vector<A>::scalar S;
  return mpsx_map<S>([=](S x, S y) { return insert_bits(x, y, offset, bits); }, a, b);
}
}  // namespace metal
