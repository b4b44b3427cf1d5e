// mma.sync: converts operands of any element type to fragments for the tensor core instructions of shape m16n8.
#pragma once

namespace mpsx {
// The operand types of the tensor core instructions. Each word of a fragment contains kElements elements.
struct f16_operands {
  typedef float accumulator;
  static constexpr int kElements = 2;
  template <class T>
  static MPSX_FN unsigned bits(T v) {
    return as_bits(metal::half(v));
  }
  static MPSX_FN unsigned as_bits(metal::half v) { return metal::as_type<metal::ushort>(v); }
};
struct bf16_operands {
  typedef float accumulator;
  static constexpr int kElements = 2;
  template <class T>
  static MPSX_FN unsigned bits(T v) {
    return metal::as_type<metal::ushort>(metal::bfloat(v));
  }
};
struct tf32_operands {
  typedef float accumulator;
  static constexpr int kElements = 1;
};
template <bool SIGNED_A, bool SIGNED_B>
struct int8_operands {
  typedef int accumulator;
  static constexpr int kElements = 4;
  template <class T>
  static MPSX_FN unsigned bits(T v) {
    return unsigned(v) & 0xffu;
  }
};
template <class T>
constexpr bool is_float_type = metal::is_same_v<T, float>;
template <class T>
constexpr bool is_half_type = metal::is_same_v<T, metal::half>;
template <class T>
constexpr bool is_bfloat_type = metal::is_same_v<T, metal::bfloat>;

// The narrowest operand type that represents the elements of both A and B exactly. half and bfloat represent all 8-bit
// integers exactly, and tf32 represents all types except float exactly.
template <class A, class B>
MPSX_FN constexpr auto operands_for() {
  if constexpr (is_int8<A> && is_int8<B>)
    return int8_operands<metal::is_signed_v<A>, metal::is_signed_v<B>>();
  else if constexpr ((is_half_type<A> || is_int8<A>) && (is_half_type<B> || is_int8<B>))
    return f16_operands();
  else if constexpr ((is_bfloat_type<A> || is_int8<A>) && (is_bfloat_type<B> || is_int8<B>))
    return bf16_operands();
  else
    return tf32_operands();
}

#define MPSX_MMA16(NAME, TYPE)                                                            \
  MPSX_FN void mma(NAME, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { \
    __asm__("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                        \
            ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"        \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                              \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));          \
  }
MPSX_MMA16(f16_operands, "f16")
MPSX_MMA16(bf16_operands, "bf16")
#undef MPSX_MMA16
MPSX_FN void mma(tf32_operands, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  __asm__(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#define MPSX_MMA8(SIGNED_A, SIGNED_B, A, B)                                                                          \
  MPSX_FN void mma(int8_operands<SIGNED_A, SIGNED_B>, int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { \
    __asm__("mma.sync.aligned.m16n8k32.row.col.s32." A "." B                                                         \
            ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                   \
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                         \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                     \
  }
MPSX_MMA8(true, true, "s8", "s8")
MPSX_MMA8(true, false, "s8", "u8")
MPSX_MMA8(false, true, "u8", "s8")
MPSX_MMA8(false, false, "u8", "u8")
#undef MPSX_MMA8

// The N words of an operand fragment.
template <class Operands, class T, int N>
struct fragment_words {
  unsigned word[N] = {};
  MPSX_FN void set(int w, int e, T v) { word[w] |= Operands::bits(v) << (e * 32 / Operands::kElements); }
};
// Splits each float into two tf32 numbers whose sum has the precision of float.
template <class T, int N>
struct fragment_words<tf32_operands, T, N> {
  unsigned word[N] = {}, low[N] = {}, crossed[N] = {};
  MPSX_FN void set(int w, int, T v) {
    if constexpr (is_float_type<T>) {
      // The low parts of the other operand are multiplied by `crossed`, which is zero if v is infinite, because
      // infinity times a low part of zero would yield NaN. If rounding would overflow, truncate instead.
      const bool finite = metal::isfinite(v);
      const float rounded = float_of((bits_of(v) + 0x1000u) & 0xffffe000u);
      const float high = !finite || metal::isfinite(rounded) ? rounded : float_of(bits_of(v) & 0xffffe000u);
      word[w] = bits_of(finite ? high : v);
      low[w] = finite ? bits_of(v - high) + 0x1000u : 0u;
      crossed[w] = finite ? bits_of(high) : 0u;
    } else {
      word[w] = bits_of(float(v));
      crossed[w] = metal::isfinite(float(v)) ? word[w] : 0u;
    }
  }
};

// Computes d += a b. If RELAXED, rounds float operands to tf32.
template <bool RELAXED, class Operands, class A, class B, class S>
MPSX_FN void multiply_block(Operands operands, S (&d)[4], const fragment_words<Operands, A, 4>& a,
                            const fragment_words<Operands, B, 2>& b) {
  if constexpr (metal::is_same_v<Operands, tf32_operands>) {
    // Tensor cores truncate when they add, so add the block's sum to d in float. Accumulate the products with low parts
    // first, because they are small.
    float sum[4] = {};
    if constexpr (!RELAXED && is_float_type<A>) mma(operands, sum, a.low, b.crossed);
    if constexpr (!RELAXED && is_float_type<B>) mma(operands, sum, a.crossed, b.low);
    mma(operands, sum, a.word, b.word);
    for (int i = 0; i < 4; ++i) d[i] += sum[i];
  } else {
    mma(operands, d, a.word, b.word);
  }
}
}  // namespace mpsx
