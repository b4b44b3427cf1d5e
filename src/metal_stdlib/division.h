// Integer division that does not trap. It computes in floating point, so that loops vectorize.
#pragma once

namespace mpsx {

// Returns a divisor for a / b and a % b that does not trap, unlike x86 division. For b = 0, the quotient is a and the
// remainder is 0. Dividing the smallest integer by -1 wraps around.
template <class R>
MPSX_FN constexpr R safe_divisor(R a, R b) {
#ifdef MPSX_CUDA  // GPUs do not trap
  return b;
#endif
  constexpr R smallest = sizeof(R) == 8 ? R(0x8000000000000000ull) : R(0x80000000u);
  return b == 0 || (R(-1) < R(0) && b == R(-1) && a == smallest) ? R(1) : b;
}

// python/mpsx/msl/passes/division.py rewrites a / b as a / safe / b, and a /= b as a /= safe = b (likewise for %). The
// operators below guard integer divisions. They do not change other divisions.
template <class A>
struct safe_dividend {
  const A& value;
};
template <class B>
struct safe_assigned_divisor {
  const B& value;
};
struct safe_t {
  template <class B>
  MPSX_FN constexpr safe_assigned_divisor<B> operator=(const B& b) const {
    return {b};
  }
};
inline constexpr safe_t safe{};

#define MPSX_SAFE_DIVISION(OP)                                                                            \
  template <class A>                                                                                      \
  MPSX_FN constexpr safe_dividend<A> operator OP(const A& a, safe_t) {                                    \
    return {a};                                                                                           \
  }                                                                                                       \
  template <class A, class B>                                                                             \
  MPSX_FN constexpr auto operator OP(safe_dividend<A> a, const B& b)->decltype(a.value OP b) {            \
    if constexpr (metal::is_integral_v<A> && metal::is_integral_v<B>) {                                   \
      typedef decltype(a.value OP b) R;                                                                   \
      return R(a.value) OP safe_divisor<R>(R(a.value), R(b));                                             \
    } else {                                                                                              \
      return a.value OP b;                                                                                \
    }                                                                                                     \
  }                                                                                                       \
  template <class A, class B>                                                                             \
  MPSX_FN constexpr auto operator OP##=(A& a, safe_assigned_divisor<B> b)->decltype(a OP##= b.value) {   \
    if constexpr (metal::is_integral_v<A> && metal::is_integral_v<B>)                                     \
      return a = A(a OP safe OP b.value);                                                                 \
    else                                                                                                  \
      return a OP##= b.value;                                                                            \
  }
MPSX_SAFE_DIVISION(/)
MPSX_SAFE_DIVISION(%)
#undef MPSX_SAFE_DIVISION

// F(a) / F(b) is never rounded up to the next integer if a float type F with p bits of precision represents a and b
// exactly: the exact quotient is at least 1/b below that integer, and rounding adds at most a/b 2^-p.
template <typename C>
struct division_float {
  typedef float type;
};
template <>
struct division_float<int> {
  typedef double type;
};

// Computes a = q b + r for integers of at most 32 bits and b != 0, with q rounded toward zero. INT_MIN / -1 wraps
// around.
template <typename C>
MPSX_FN void divide(C a, C b, C& q, C& r) {
  typedef typename division_float<C>::type F;
  const bool negated = b == C(-1) && C(-1) < C(0);
  const C d = negated ? C(1) : b, whole = C(int(F(a) / F(d)));
  q = negated ? C(0u - unsigned(whole)) : whole;
  r = C(unsigned(a) - unsigned(whole) * unsigned(d));
}

// A double cannot represent every 64-bit integer, so divide in two steps: first divide a, then divide the remainder of
// that step. Multiples of 2^64 cancel out. After the second step, the remainder is at most about |b|/2 in magnitude but
// may have the wrong sign, so correct it at the end.
MPSX_FN void divide(long a, long b, long& q, long& r) {
  typedef unsigned long U;
  const double inverse = 1.0 / double(b), most = 9223372036854774784.0;  // most: the largest double below 2^63
  double first = double(a) * inverse;
  first = first > most ? most : first;
  first = first < -most ? -most : first;
  const U d = U(b), q1 = U(long(__builtin_rint(first))), left = U(a) - q1 * d;
  const U q2 = U(long(__builtin_rint(double(long(left)) * inverse))), rest = left - q2 * d;
  const U wrong = rest != 0 && (long(rest) < 0) != (a < 0) ? ~U(0) : U(0);
  const U over = (long(rest) < 0) == (b < 0) ? U(0) : ~U(0);  // 0 to correct by b, all ones to correct by -b
  q = long(q1 + q2 + (wrong & (over | 1)));
  r = long(rest - (wrong & ((d ^ over) - over)));
}

}  // namespace mpsx
