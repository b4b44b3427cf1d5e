// cumsum, cumprod, logcumsumexp.
#include "scan/scan.h"

// Floats accumulate as the unevaluated sum of several, which is as exact as the CPU's double. The error of an addition is
// D. E. Knuth's (TAOCP volume 2, 4.2.2), that of a product T. J. Dekker's ("A floating-point technique for extending the
// available precision", 1971).
struct Pair {
  float high, low;
};
inline Pair add_exact(float a, float b) {
  const float sum = a + b, shadow = sum - a;
  return {sum, (a - (sum - shadow)) + (b - shadow)};
}
// Where |a| >= |b|.
inline Pair add_smaller(float a, float b) {
  const float sum = a + b;
  return {sum, b - (sum - a)};
}
inline Pair add(Pair a, Pair b) {
  const Pair sum = add_exact(a.high, b.high);
  return add_smaller(sum.high, sum.low + a.low + b.low);
}
inline Pair multiply(Pair a, Pair b) {
  const float product = a.high * b.high;
  const float error = fma(a.low, b.high, fma(a.high, b.low, fma(a.high, b.high, -product)));
  return add_smaller(product, is_infinite(product) ? 0.0f : error);
}
// Beyond the largest float there is no low part.
inline float value_of(Pair a) { return is_nan(a.low) ? a.high : a.high + a.low; }

template <typename C>
struct Sum {
  typedef C State;
  static State identity() { return C(0); }
  static State next(State s, C x, uint) { return add_scaled(s, x, C(1)); }
  static State join(State a, State b) { return add_scaled(a, b, C(1)); }
  static C value(State s) { return s; }
};
// A few elements are added up on their own before they join the exact sum, which the next ones need not wait for.
template <>
struct Sum<float> {
  enum : uint { kBlock = 8 };
  struct State {
    Pair before;
    float block;
  };
  static State identity() { return {{0.0f, 0.0f}, 0.0f}; }
  static State next(State s, float x, uint i) {
    s.block += x;
    return i % kBlock == kBlock - 1 ? State{add(s.before, {s.block, 0.0f}), 0.0f} : s;
  }
  static State join(State a, State b) {
    return {add(add(a.before, {a.block, 0.0f}), b.before), b.block};
  }
  // Of an infinite sum the low part is NaN.
  static float value(State s) {
    const float low = is_nan(s.before.low) ? 0.0f : s.before.low;
    return s.before.high + (low + s.block);
  }
};

template <typename C>
struct Product {
  typedef C State;
  static State identity() { return C(1); }
  static State next(State s, C x, uint) { return multiply(s, x); }
  static State join(State a, State b) { return multiply(a, b); }
  static C value(State s) { return s; }
};
template <>
struct Product<float> {
  typedef Pair State;
  static State identity() { return {1.0f, 0.0f}; }
  static State next(State s, float x, uint) { return multiply(s, {x, 0.0f}); }
  static State join(State a, State b) { return multiply(a, b); }
  static float value(State s) { return value_of(s); }
};

// The largest exponent seen, and the sum of exp(x - top).
template <typename C>
struct LogSumExp {
  struct State {
    float top;
    Pair sum;
  };
  static State identity() { return {-INFINITY, {0.0f, 0.0f}}; }
  // One exponential an element: of the difference, whichever of the two is larger.
  static State next(State s, float x, uint) {
    const bool later = !(x <= s.top);  // also where one is NaN, which then stays
    const float scale = x == s.top ? 1.0f : precise::exp(later ? s.top - x : x - s.top);  // inf - inf would be NaN
    const Pair scaled = multiply(s.sum, {later ? scale : 1.0f, 0.0f});
    return {later ? x : s.top, add(scaled, {later ? 1.0f : scale, 0.0f})};
  }
  static State join(State a, State b) {
    const bool later = !(b.top <= a.top);
    const float top = later ? b.top : a.top;
    const float scale_a = a.top == top ? 1.0f : precise::exp(a.top - top);
    const float scale_b = b.top == top ? 1.0f : precise::exp(b.top - top);
    return {top, add(multiply(a.sum, {scale_a, 0.0f}), multiply(b.sum, {scale_b, 0.0f}))};
  }
  static float value(State s) { return precise::log(value_of(s.sum)) + s.top; }
};

template <typename T, typename S>
struct Accumulated {
  device T* out;
  void write(uint i, typename S::State s) const { out[i] = T(S::value(s)); }
  Accumulated at(ulong offset) const { return {out + offset}; }
};

template <typename T, typename S>
kernel void accumulate_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                            constant ScanParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State scratch[kScanThreads];
  const ulong begin = scan_row_begin(p, g.group);
  scan_row<S>(in + begin, Accumulated<T, S>{out + begin}, p.size, scratch, g);
}
template <typename T, typename S>
kernel void accumulate_columns(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                               constant ScanParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State state[kScanColumns];
  const ulong begin = scan_column_begin(p, g.group);
  scan_columns<S>(in + begin, Accumulated<T, S>{out + begin}, p, scan_column_count(p, g.group), state, g);
}

#define MPSX_ACCUMULATE(T, TAG, NAME, OP)                                           \
  MPSX_KERNEL(#NAME "_rows_" #TAG, accumulate_rows<T, OP<compute_t<T>>>)          \
  MPSX_KERNEL(#NAME "_columns_" #TAG, accumulate_columns<T, OP<compute_t<T>>>)
MPSX_FOR_REAL(MPSX_ACCUMULATE, cumsum, Sum)
MPSX_FOR_REAL(MPSX_ACCUMULATE, cumprod, Product)
MPSX_FOR_FLOAT(MPSX_ACCUMULATE, logcumsumexp, LogSumExp)
