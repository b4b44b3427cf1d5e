// The NVIDIA version of FragmentVectors (metal/lib/multiply_vectors.h). The vectors are the columns of mma.sync's right
// operand. Hardware lane 4g + q holds elements of vector r(g), and computes sums for vectors r(2q) and r(2q + 1).
// fragment.h defines r.
#pragma once

namespace mpsx {
struct vector_products {
  static constexpr unsigned kSums = 4;
  static MPSX_FN unsigned row(unsigned lane, unsigned i) { return (lane / 4 & 4) + lane / 2 % 4 + i / 2 * 8; }
  static MPSX_FN unsigned vector(unsigned lane, unsigned i) {
    const unsigned q = (lane / 4 & 2) + lane % 2;
    return unsigned(fragment_row(int((2 * q + i % 2) * 4)));
  }

  template <class T>
  static MPSX_FN void multiply(float (&sums)[kSums], const metal::vec<T, 4> (&rows)[2], const metal::vec<T, 4>& x) {
    typedef metal::conditional_t<is_half_type<T>, f16_operands, bf16_operands> O;
    const unsigned a[4] = {word(rows[0], 0), word(rows[1], 0), word(rows[0], 2), word(rows[1], 2)};
    const unsigned b[2] = {word(x, 0), word(x, 2)};
    mma(O(), sums, a, b);
  }
  // If both constants are known, NVIDIA's assembler would compile the expression to two instructions.
  static MPSX_FN unsigned masked_or(unsigned word, unsigned mask, unsigned bits) {
    unsigned result;
    __asm__("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(word), "r"(mask), "r"(bits));
    return result;
  }

 private:
  // Returns elements i and i + 1.
  template <class T>
  static MPSX_FN unsigned word(const metal::vec<T, 4>& v, int i) {
    return unsigned(metal::as_type<metal::ushort>(T(v[i]))) | unsigned(metal::as_type<metal::ushort>(T(v[i + 1])))
                                                                  << 16;
  }
};
}  // namespace mpsx
