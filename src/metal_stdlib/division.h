// Division of integers in vectors, which processors have for floats alone.
#pragma once

namespace mpsx {

// Where a float type holds both operands, in p bits, their quotient is not rounded up to an integer that it is below:
// it is 1/b below at least, and rounding adds a/b 2^-p at most.
template <typename C>
struct division_float {
  typedef float type;
};
template <>
struct division_float<int> {
  typedef double type;
};

// a = q b + r, q rounded towards zero, for integers of at most 32 bits and b other than 0; INT_MIN / -1 wraps around.
template <typename C>
MPSX_FN void divide(C a, C b, C& q, C& r) {
  typedef typename division_float<C>::type F;
  const bool negated = b == C(-1) && C(-1) < C(0);
  const C d = negated ? C(1) : b, whole = C(int(F(a) / F(d)));
  q = negated ? C(0u - unsigned(whole)) : whole;
  r = C(unsigned(a) - unsigned(whole) * unsigned(d));
}

// A double does not hold 64 bits: two steps, the second of what the first leaves. Each rounds to the nearest, so that
// is at most |b|/2 and 2^12, and then |b|/2 and less than 1; multiples of 2^64 cancel. Its sign may be the other one.
MPSX_FN void divide(long a, long b, long& q, long& r) {
  typedef unsigned long U;
  const double inverse = 1.0 / double(b), most = 9223372036854774784.0;  // the double below 2^63
  double first = double(a) * inverse;
  first = first > most ? most : first;
  first = first < -most ? -most : first;
  const U d = U(b), q1 = U(long(__builtin_rint(first))), left = U(a) - q1 * d;
  const U q2 = U(long(__builtin_rint(double(long(left)) * inverse))), rest = left - q2 * d;
  const U wrong = rest != 0 && (long(rest) < 0) != (a < 0) ? ~U(0) : U(0);
  const U over = (long(rest) < 0) == (b < 0) ? U(0) : ~U(0);  // 0: by one b, all ones: by one -b
  q = long(q1 + q2 + (wrong & (over | 1)));
  r = long(rest - (wrong & ((d ^ over) - over)));
}

}  // namespace mpsx
