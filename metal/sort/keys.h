// Unsigned integer keys that sort in the same order as the elements. NaN comes last, and -0 and 0 have the same key.
#pragma once

#include "lib/types.h"

// Converts the bits of a float to a key. `exponent` is the bit pattern of infinity.
template <typename K>
inline K float_key(K bits, K exponent) {
  const K sign = K(K(1) << (sizeof(K) * 8 - 1)), magnitude = bits & K(~sign);
  const K ordered = bits & sign ? K(~bits) : K(bits | sign);
  return magnitude > exponent ? K(~K(0)) : (magnitude == 0 ? sign : ordered);
}

template <typename T> struct sort_key;
template <> struct sort_key<float> {
  typedef uint type;
  static uint of(float x) { return float_key<uint>(as_type<uint>(x), 0x7f800000u); }
};
template <> struct sort_key<half> {
  typedef ushort type;
  static ushort of(half x) { return float_key<ushort>(as_type<ushort>(x), ushort(0x7c00)); }
};
template <> struct sort_key<bfloat> {
  typedef ushort type;
  static ushort of(bfloat x) { return float_key<ushort>(as_type<ushort>(x), ushort(0x7f80)); }
};
template <> struct sort_key<long> {
  typedef ulong type;
  static ulong of(long x) { return ulong(x) ^ (ulong(1) << 63); }
};
template <> struct sort_key<int> {
  typedef uint type;
  static uint of(int x) { return uint(x) ^ 0x80000000u; }
};
template <> struct sort_key<short> {
  typedef ushort type;
  static ushort of(short x) { return ushort(ushort(x) ^ 0x8000u); }
};
template <> struct sort_key<char> {
  typedef uchar type;
  static uchar of(char x) { return uchar(uchar(x) ^ 0x80u); }
};
template <> struct sort_key<uchar> {
  typedef uchar type;
  static uchar of(uchar x) { return x; }
};
template <> struct sort_key<bool> {
  typedef uchar type;
  static uchar of(bool x) { return uchar(x); }
};
template <typename T> using sort_key_t = typename sort_key<T>::type;

// Returns the key of x, for ascending order if `order` is 0 and for descending order if it is ~0.
template <typename T>
inline sort_key_t<T> key_in_order(T x, uint order) {
  return sort_key_t<T>(sort_key<T>::of(x) ^ sort_key_t<T>(order ? ~ulong(0) : ulong(0)));
}
