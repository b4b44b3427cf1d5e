// cumsum, cumprod and logcumsumexp.
#include "scan/scan.h"

// Floats accumulate as the unevaluated sum of two floats, because the CPU accumulates in double. The rounding error of
// a sum is computed with D. E. Knuth's method (TAOCP volume 2, 4.2.2), and the rounding error of a product with T. J.
// Dekker's method ("A floating-point technique for extending the available precision", 1971).
struct DoubleFloat {
  float high, low;
};
inline DoubleFloat shuffle_up(DoubleFloat v, ushort distance) {
  return {shuffle_up(v.high, distance), shuffle_up(v.low, distance)};
}
inline void add_to(thread DoubleFloat& a, float high, float low) {
  const float sum = a.high + high, shadow = sum - a.high;
  const float error = (a.high - (sum - shadow)) + (high - shadow) + a.low + low;
  const float finite_error = is_infinite(sum) ? 0.0f : error;
  a.high = sum + finite_error;
  a.low = finite_error - (a.high - sum);
}
inline void multiply_by(thread DoubleFloat& a, float high, float low) {
  const float product = a.high * high;
  const float error = fma(a.low, high, fma(a.high, low, fma(a.high, high, -product)));
  const float finite_error = is_infinite(product) ? 0.0f : error;
  a.high = product + finite_error;
  a.low = finite_error - (a.high - product);
}
// If the sum is infinite, its low part is NaN.
inline float value_of(thread const DoubleFloat& a) { return is_nan(a.low) ? a.high : a.high + a.low; }

template <typename C>
struct Sum {
  typedef C State;
  static State identity() { return C(0); }
  static void next(thread State& s, C x, uint) { s = add_scaled(s, x, C(1)); }
  static State join(State a, State b) { return add_scaled(a, b, C(1)); }
  static C value(thread const State& s) { return s; }
};
// A sum that exceeds the range of float may come back into range by cancellation. On the CPU it never overflows,
// because the CPU adds in double, or sequentially. On the GPU, a scan adds partial sums. So it switches to a smaller
// scale if a term or sum exceeds kLargeSum.
constant float kLargeSum = 0x1p118f, kSumScale = 0x1p-64f;
inline float unscaled_sum(float sum, float scale) { return scale == 1.0f ? sum : sum / kSumScale; }

// Sums each block of elements in plain float before adding it to the compensated sum. This shortens the dependency
// chain.
template <>
struct Sum<float> {
  enum : uint { kBlock = 8 };
  struct State {
    DoubleFloat before;
    float block, scale;
    friend State shuffle_up(State v, ushort distance) {
      return {shuffle_up(v.before, distance), shuffle_up(v.block, distance), shuffle_up(v.scale, distance)};
    }
  };
  static State identity() { return {{0.0f, 0.0f}, 0.0f, 1.0f}; }
  static State scaled(State s) {
    return {{s.before.high * kSumScale, s.before.low * kSumScale}, s.block * kSumScale, kSumScale};
  }
  static State in_range(State s, float largest) {
    return fabs(largest) > kLargeSum && s.scale == 1.0f ? scaled(s) : s;
  }
  static void next(thread State& s, float x, uint i) {
    s = in_range(s, x);
    s.block = fma(x, s.scale, s.block);
    if (i % kBlock != kBlock - 1) return;
    add_to(s.before, s.block, 0.0f);
    s.block = 0.0f;
    s = in_range(s, s.before.high);
  }
  static State join(State a, State b) {
    if (a.scale > b.scale) a = scaled(a);
    if (b.scale > a.scale) b = scaled(b);
    add_to(a.before, a.block, 0.0f);
    add_to(a.before, b.before.high, b.before.low);
    a.block = b.block;
    return in_range(a, a.before.high);
  }
  // If the sum is infinite, its low part is NaN.
  static float value(thread const State& s) {
    const float low = is_nan(s.before.low) ? 0.0f : s.before.low;
    return unscaled_sum(s.before.high + (low + s.block), s.scale);
  }
};

// For half types, float is as accurate as the CPU's sums. Only bfloat has values near the limit of float.
struct BfloatSum {
  struct State {
    float sum, scale;
    friend State shuffle_up(State v, ushort distance) {
      return {shuffle_up(v.sum, distance), shuffle_up(v.scale, distance)};
    }
  };
  static State identity() { return {0.0f, 1.0f}; }
  static State scaled(State s) { return {s.sum * kSumScale, kSumScale}; }
  static State in_range(State s) { return fabs(s.sum) > kLargeSum && s.scale == 1.0f ? scaled(s) : s; }
  static void next(thread State& s, float x, uint) {
    s.sum = fma(x, s.scale, s.sum);
    s = in_range(s);
  }
  static State join(State a, State b) {
    if (a.scale > b.scale) a = scaled(a);
    if (b.scale > a.scale) b = scaled(b);
    a.sum += b.sum;
    return in_range(a);
  }
  static float value(thread const State& s) { return unscaled_sum(s.sum, s.scale); }
};
struct FloatSum {
  typedef float State;
  static State identity() { return 0.0f; }
  static void next(thread State& s, float x, uint) { s += x; }
  static State join(State a, State b) { return a + b; }
  static float value(thread const State& s) { return s; }
};
template <typename T> struct SumOf { typedef Sum<compute_t<T>> type; };
template <> struct SumOf<half> { typedef FloatSum type; };
template <> struct SumOf<bfloat> { typedef BfloatSum type; };

template <typename C>
struct Product {
  typedef C State;
  static State identity() { return C(1); }
  static void next(thread State& s, C x, uint) { s = multiply(s, x); }
  static State join(State a, State b) { return multiply(a, b); }
  static C value(thread const State& s) { return s; }
};
// Partial products may exceed the range of float even if the running product does not. They are stored as (high + low)
// * 2^(64 * exponent), with |high| near 1 unless it is 0, infinite or NaN.
struct WideProduct {
  DoubleFloat part;
  int exponent;
  friend WideProduct shuffle_up(WideProduct v, ushort distance) {
    return {shuffle_up(v.part, distance), shuffle_up(v.exponent, distance)};
  }
};
inline WideProduct normalized(DoubleFloat v, int exponent) {
  for (; fabs(v.high) > 0x1p32f && fabs(v.high) <= FLT_MAX; ++exponent) v.high *= 0x1p-64f, v.low *= 0x1p-64f;
  for (; fabs(v.high) < 0x1p-32f && v.high != 0.0f; --exponent) v.high *= 0x1p64f, v.low *= 0x1p64f;
  return {v, exponent};
}
inline float value_of(float v, int exponent) { return exponent == 0 ? v : ldexp(v, 64 * clamp(exponent, -5, 5)); }

// The low part only holds a rounding error, so the pair need not be normalized.
template <>
struct Product<float> {
  typedef WideProduct State;
  static State identity() { return {{1.0f, 0.0f}, 0}; }
  static void next(thread State& s, float x, uint) {
    const WideProduct y = normalized({x, 0.0f}, 0);
    const float product = s.part.high * y.part.high;
    const float low = fma(s.part.low, y.part.high, fma(s.part.high, y.part.high, -product));
    s = normalized({product, low}, s.exponent + y.exponent);
  }
  static State join(State a, State b) {
    multiply_by(a.part, b.part.high, b.part.low);
    return normalized(a.part, a.exponent + b.exponent);
  }
  static float value(thread const State& s) {
    return value_of(is_infinite(s.part.high) ? s.part.high : s.part.high + s.part.low, s.exponent);
  }
};
struct FloatProduct {
  typedef WideProduct State;  // the low part is always 0
  static State identity() { return {{1.0f, 0.0f}, 0}; }
  static void next(thread State& s, float x, uint) { s = join(s, normalized({x, 0.0f}, 0)); }
  static State join(State a, State b) {
    return normalized({a.part.high * b.part.high, 0.0f}, a.exponent + b.exponent);
  }
  static float value(thread const State& s) { return value_of(s.part.high, s.exponent); }
};
template <typename T> struct ProductOf { typedef Product<compute_t<T>> type; };
template <> struct ProductOf<half> { typedef FloatProduct type; };
template <> struct ProductOf<bfloat> { typedef FloatProduct type; };

constexpr constant float kMaxExcess = 1.0f;
// A reference exponent that is within kMaxExcess of the maximum, and the sum of exp(x - reference). Changing the
// reference rounds the sum, so the reference should not change with every element of a slowly rising sequence.
struct LogSumExp {
  struct State {
    float reference;
    DoubleFloat sum;
    friend State shuffle_up(State v, ushort distance) {
      return {shuffle_up(v.reference, distance), shuffle_up(v.sum, distance)};
    }
  };
  static State identity() { return {-INFINITY, {0.0f, 0.0f}}; }
  // Adds an element. Uses selects instead of branches, so that only one exponential is evaluated.
  static void next(thread State& s, float x, uint) {
    const bool later = !(x <= s.reference + kMaxExcess);  // also true if either is NaN, which then persists
    const float d = later ? s.reference - x : x - s.reference;
    const float scale = x == s.reference ? 1.0f : precise::exp(d);  // if x == reference, d may be inf - inf
    multiply_by(s.sum, later ? scale : 1.0f, 0.0f);
    add_to(s.sum, later ? 1.0f : scale, 0.0f);
    s.reference = later ? x : s.reference;
  }
  static State join(State a, State b) {
    const bool later = !(b.reference <= a.reference + kMaxExcess);
    const float reference = later ? b.reference : a.reference;
    multiply_by(a.sum, a.reference == reference ? 1.0f : precise::exp(a.reference - reference), 0.0f);
    multiply_by(b.sum, b.reference == reference ? 1.0f : precise::exp(b.reference - reference), 0.0f);
    add_to(a.sum, b.sum.high, b.sum.low);
    a.reference = reference;
    return a;
  }
  static float value(thread const State& s) { return precise::log(value_of(s.sum)) + s.reference; }
};

template <typename T> struct LogSumExpOf { typedef LogSumExp type; };

template <typename T, typename S>
struct ScanOutput {
  typedef typename S::State State;
  template <uint N>
  struct Block {
    Vec<T, N> v;
    void set(uint j, thread const State& s) { v.v[j] = T(S::value(s)); }
  };
  device T* out;
  void write(uint i, thread const State& s) const { out[i] = T(S::value(s)); }
  template <uint N> void store(uint i, Block<N> b) const { store_vec(out + i, b.v); }
  ScanOutput at(ulong offset) const { return {out + offset}; }
};

template <typename T, typename S>
kernel void accumulate_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                            constant ScanParams& p [[buffer(2)]], device typename S::State* states [[buffer(3)]],
                            MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State scratch[kScratch];
  scan_rows<S>(in, ScanOutput<T, S>{out}, p, states, scratch, g);
}
template <typename T, typename S>
kernel void accumulate_columns(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                               constant ScanParams& p [[buffer(2)]], device typename S::State* states [[buffer(3)]],
                               MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  scan_columns<S>(in, ScanOutput<T, S>{out}, p, states, g);
}

#define MPSX_ACCUMULATE(T, TAG, NAME, OP)                                           \
  MPSX_KERNEL(#NAME "_rows_" #TAG, accumulate_rows<T, typename OP<T>::type>)          \
  MPSX_KERNEL(#NAME "_columns_" #TAG, accumulate_columns<T, typename OP<T>::type>)
MPSX_FOR_REAL(MPSX_ACCUMULATE, cumsum, SumOf)
MPSX_FOR_REAL(MPSX_ACCUMULATE, cumprod, ProductOf)
MPSX_FOR_FLOAT(MPSX_ACCUMULATE, logcumsumexp, LogSumExpOf)
