// <metal_integer>.
#pragma once

namespace metal {
template <class T>
MPSX_FN constexpr uint64_t mpsx_bits(T x) {
  return uint64_t(make_unsigned_t<T>(x));
}
#define MPSX_INTEGER(T)                                                                                    \
  MPSX_FN constexpr make_unsigned_t<T> absdiff(T a, T b) {                                                 \
    typedef make_unsigned_t<T> U;                                                                          \
    return a < b ? U(U(b) - U(a)) : U(U(a) - U(b));                                                        \
  }                                                                                                        \
  MPSX_FN constexpr T popcount(T x) { return T(__builtin_popcountll(mpsx_bits(x))); }                      \
  MPSX_FN constexpr T clz(T x) {                                                                           \
    return x == 0 ? T(8 * sizeof(T)) : T(__builtin_clzll(mpsx_bits(x)) - 64 + int(8 * sizeof(T)));         \
  }                                                                                                        \
  MPSX_FN constexpr T ctz(T x) { return x == 0 ? T(8 * sizeof(T)) : T(__builtin_ctzll(mpsx_bits(x))); }    \
  MPSX_FN constexpr T rotate(T x, T n) {                                                                   \
    const unsigned width = 8 * sizeof(T), k = unsigned(n) & (width - 1);                                   \
    const uint64_t b = mpsx_bits(x);                                                                       \
    return T(k == 0 ? b : b << k | b >> (width - k));                                                      \
  }                                                                                                        \
  MPSX_FN constexpr T reverse_bits(T x) {                                                                  \
    uint64_t b = mpsx_bits(x), r = 0;                                                                      \
    for (unsigned i = 0; i < 8 * sizeof(T); ++i, b >>= 1) r = r << 1 | (b & 1);                            \
    return T(r);                                                                                           \
  }                                                                                                        \
  MPSX_FN constexpr T extract_bits(T x, uint offset, uint bits) {                                          \
    if (bits == 0) return 0;                                                                               \
    const unsigned width = 8 * sizeof(T);                                                                  \
    return T(T(make_unsigned_t<T>(x) << (width - offset - bits)) >> (width - bits));                       \
  }                                                                                                        \
  MPSX_FN constexpr T insert_bits(T base, T insert, uint offset, uint bits) {                              \
    const uint64_t mask = (bits >= 64 ? ~0ull : (1ull << bits) - 1) << offset;                             \
    return T((mpsx_bits(base) & ~mask) | (mpsx_bits(insert) << offset & mask));                            \
  }                                                                                                        \
  MPSX_FN constexpr T addsat(T a, T b) {                                                                   \
    T r = 0;                                                                                               \
    return !__builtin_add_overflow(a, b, &r) ? r : (is_signed_v<T> && b < T(1) ? numeric_limits<T>::min() : numeric_limits<T>::max()); \
  }                                                                                                        \
  MPSX_FN constexpr T subsat(T a, T b) {                                                                   \
    T r = 0;                                                                                               \
    return !__builtin_sub_overflow(a, b, &r)                                                               \
               ? r                                                                                         \
               : (is_unsigned_v<T> || b > 0 ? numeric_limits<T>::min() : numeric_limits<T>::max());        \
  }                                                                                                        \
  MPSX_FN constexpr T hadd(T a, T b) { return T((a >> 1) + (b >> 1) + (a & b & 1)); }                      \
  MPSX_FN constexpr T rhadd(T a, T b) { return T((a >> 1) + (b >> 1) + ((a | b) & 1)); }
typedef __int128 mpsx_int128;
typedef unsigned __int128 mpsx_uint128;
// The upper half of a product.
#define MPSX_MULHI(T, WIDE)                                                                     \
  MPSX_FN constexpr T mulhi(T a, T b) { return T((WIDE(a) * WIDE(b)) >> (8 * sizeof(T))); }     \
  MPSX_FN constexpr T madhi(T a, T b, T c) {                                                    \
    typedef make_unsigned_t<T> U;                                                               \
    return T(U(mulhi(a, b)) + U(c));                                                            \
  }
#define MPSX_SIGNED_ABS(T) \
  MPSX_FN constexpr T abs(T x) { return x < 0 ? T(-make_unsigned_t<T>(x)) : x; }
#define MPSX_UNSIGNED_ABS(T) \
  MPSX_FN constexpr T abs(T x) { return x; }
MPSX_INTEGER(char)
MPSX_INTEGER(uchar)
MPSX_INTEGER(short)
MPSX_INTEGER(ushort)
MPSX_INTEGER(int)
MPSX_INTEGER(uint)
MPSX_INTEGER(long)
MPSX_INTEGER(ulong)
MPSX_MULHI(char, int)
MPSX_MULHI(uchar, uint)
MPSX_MULHI(short, int)
MPSX_MULHI(ushort, uint)
MPSX_MULHI(int, long)
MPSX_MULHI(uint, ulong)
MPSX_MULHI(long, mpsx_int128)
MPSX_MULHI(ulong, mpsx_uint128)
MPSX_SIGNED_ABS(char)
MPSX_SIGNED_ABS(short)
MPSX_SIGNED_ABS(int)
MPSX_SIGNED_ABS(long)
MPSX_UNSIGNED_ABS(uchar)
MPSX_UNSIGNED_ABS(ushort)
MPSX_UNSIGNED_ABS(uint)
MPSX_UNSIGNED_ABS(ulong)
#undef MPSX_INTEGER
#undef MPSX_MULHI
#undef MPSX_SIGNED_ABS
#undef MPSX_UNSIGNED_ABS
MPSX_FN constexpr int mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
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
}  // namespace metal
