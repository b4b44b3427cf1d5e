// Every operator of unary.def.
#include "elementwise/kernels.h"
#include "lib/arithmetic.h"
#include "lib/math.h"

// The sign of half and bfloat is a bit.
struct neg_op;
struct abs_op;
#define MPSX_SIGN(T, OP, ...)                                                  \
  template <> struct UnaryOf<OP, T, T> {                                       \
    static T apply(T x, constant ScalarParams&) {                              \
      const ushort bits = as_type<ushort>(x);                                  \
      return as_type<T>(ushort(__VA_ARGS__));                                  \
    }                                                                          \
  };
MPSX_SIGN(half, neg_op, bits ^ 0x8000u)
MPSX_SIGN(bfloat, neg_op, bits ^ 0x8000u)
MPSX_SIGN(half, abs_op, bits & 0x7fffu)
MPSX_SIGN(bfloat, abs_op, bits & 0x7fffu)

struct sigmoid_op;
template <> struct UnaryOf<sigmoid_op, half, half> {
  static half apply(half x, constant ScalarParams&) { return half(falling_sigmoid_of_half(-float(x))); }
};
template <> struct UnaryOf<sigmoid_op, bfloat, bfloat> {
  static bfloat apply(bfloat x, constant ScalarParams&) { return bfloat(falling_sigmoid_of_half(-float(x))); }
};

// On a CPU, by additions: of a half that was widened, clang would round the half itself, one after the other. 2^23 leaves
// no room for a fraction, and halves are far below it; zeros keep their sign.
#if !MPSX_VECTOR_BYTES
inline float nearest_integer(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
struct floor_op;
struct ceil_op;
struct trunc_op;
struct round_op;
#define MPSX_ROUNDING(OP, ...)                                                     \
  template <> struct UnaryOf<OP, half, half> {                                     \
    static half apply(half value, constant ScalarParams&) {                        \
      const float x = float(value), n = nearest_integer(x), a = fabs(x), t = nearest_integer(a); \
      return (void)n, (void)a, (void)t, half(copysign(__VA_ARGS__, x));            \
    }                                                                              \
  };
MPSX_ROUNDING(floor_op, n > x ? n - 1.0f : n)
MPSX_ROUNDING(ceil_op, n < x ? n + 1.0f : n)
MPSX_ROUNDING(trunc_op, t > a ? t - 1.0f : t)
MPSX_ROUNDING(round_op, n)
#endif

#define MPSX_UNARY(NAME, TYPES, RESULT, ...)                            \
  struct NAME##_op {                                                    \
    template <typename C>                                               \
    static auto apply(C x, Scalars<C> s) { return (void)s, __VA_ARGS__; } \
  };                                                                    \
  MPSX_FOR_##TYPES(MPSX_UNARY_KERNELS, NAME, RESULT)
#include "elementwise/unary.def"

// Angles below 2^16 are reduced in a few steps, and the host's fast functions are as good there.
#if !MPSX_VECTOR_BYTES
#define ANGLE(NAME, ...)                                                 \
  template <> struct UsualOf<NAME##_op> {                                \
    static bool is_rare(float x) { return !(fabs(x) < 65536.0f); }       \
    static float apply(float x) { return __VA_ARGS__; }                  \
  };                                                                     \
  MPSX_FOR_FLOAT(MPSX_BLOCK_KERNELS, NAME, unary)
ANGLE(sin, x == 0.0f ? x : fast::sin(x))
ANGLE(cos, fast::cos(x))
ANGLE(tan, x == 0.0f ? x : fast::tan(x))
#endif

// What is the same along x is computed once a row, where that costs less than a second launch.
#define MPSX_REPEATED(T, TAG, NAME) MPSX_KERNEL(#NAME "_rows_10_" #TAG, unary_repeated<T, NAME##_op>)
MPSX_FOR_REAL(MPSX_REPEATED, neg)
MPSX_FOR_REAL(MPSX_REPEATED, abs)
MPSX_FOR_REAL(MPSX_REPEATED, relu)
