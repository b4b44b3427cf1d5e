// cumsum, cumprod, logcumsumexp.
#include "scan/scan.h"

// Floats accumulate as the unevaluated sum of several, which is as exact as the CPU's double. The error of an addition is
// D. E. Knuth's (TAOCP volume 2, 4.2.2), that of a product T. J. Dekker's ("A floating-point technique for extending the
// available precision", 1971).
// In place: what is returned or passed as a pair is one value of two floats to a CPU's compiler, which loops over columns
// are not vectorised with.
struct Pair {
  float high, low;
};
inline void add_to(thread Pair& a, float high, float low) {
  const float sum = a.high + high, shadow = sum - a.high;
  const float error = (a.high - (sum - shadow)) + (high - shadow) + a.low + low;
  const float rest = is_infinite(sum) ? 0.0f : error;
  a.high = sum + rest;
  a.low = rest - (a.high - sum);
}
inline void multiply_by(thread Pair& a, float high, float low) {
  const float product = a.high * high;
  const float error = fma(a.low, high, fma(a.high, low, fma(a.high, high, -product)));
  const float rest = is_infinite(product) ? 0.0f : error;
  a.high = product + rest;
  a.low = rest - (a.high - product);
}
// Beyond the largest float there is no low part.
inline float value_of(thread const Pair& a) { return is_nan(a.low) ? a.high : a.high + a.low; }

template <typename C>
struct Sum {
  typedef C State;
  typedef SideBySide<Sum, C> Lanes;
  enum : bool { kSlow = false };
  static State identity() { return C(0); }
  static void next(thread State& s, C x, uint) { s = add_scaled(s, x, C(1)); }
  static State join(State a, State b) { return add_scaled(a, b, C(1)); }
  static C value(thread const State& s) { return s; }
};
// A few elements are added up on their own before they join the exact sum, which the next ones need not wait for.
struct SumLanes;
template <>
struct Sum<float> {
  typedef SumLanes Lanes;
  enum : uint { kBlock = 8 };
  enum : bool { kSlow = true };
  struct State {
    Pair before;
    float block;
  };
  static State identity() { return {{0.0f, 0.0f}, 0.0f}; }
  static void next(thread State& s, float x, uint i) {
    s.block += x;
    if (i % kBlock != kBlock - 1) return;
    add_to(s.before, s.block, 0.0f);
    s.block = 0.0f;
  }
  static State join(State a, State b) {
    add_to(a.before, a.block, 0.0f);
    add_to(a.before, b.before.high, b.before.low);
    a.block = b.block;
    return a;
  }
  // Of an infinite sum the low part is NaN.
  static float value(thread const State& s) {
    const float low = is_nan(s.before.low) ? 0.0f : s.before.low;
    return s.before.high + (low + s.block);
  }
};

struct SumLanes {
  float high[kScanRows], low[kScanRows], block[kScanRows];
  static void start(threadgroup SumLanes& s) {
    for (uint r = 0; r < kScanRows; ++r) s.high[r] = s.low[r] = s.block[r] = 0.0f;
  }
  static void next(threadgroup SumLanes& s, threadgroup const float* x, threadgroup float* values, uint i) {
    MPSX_VECTORIZE
    for (uint r = 0; r < kScanRows; ++r) {
      const float block = s.block[r] + x[r];
      s.block[r] = block;
      const Sum<float>::State state = {{s.high[r], s.low[r]}, block};
      values[r] = Sum<float>::value(state);
    }
    if (i % Sum<float>::kBlock != Sum<float>::kBlock - 1) return;
    MPSX_VECTORIZE
    for (uint r = 0; r < kScanRows; ++r) {
      Pair before = {s.high[r], s.low[r]};
      add_to(before, s.block[r], 0.0f);
      s.high[r] = before.high;
      s.low[r] = before.low;
      s.block[r] = 0.0f;
    }
  }
};

// Of halves: float32 is as exact as the CPU's sums of them.
struct FloatSum {
  typedef float State;
  typedef SideBySide<FloatSum, float> Lanes;
  enum : bool { kSlow = true };
  static State identity() { return 0.0f; }
  static void next(thread State& s, float x, uint) { s += x; }
  static State join(State a, State b) { return a + b; }
  static float value(thread const State& s) { return s; }
};
template <typename T> struct SumOf { typedef Sum<compute_t<T>> type; };
template <> struct SumOf<half> { typedef FloatSum type; };
template <> struct SumOf<bfloat> { typedef FloatSum type; };

template <typename C>
struct Product {
  typedef C State;
  typedef SideBySide<Product, C> Lanes;
  enum : bool { kSlow = false };
  static State identity() { return C(1); }
  static void next(thread State& s, C x, uint) { s = multiply(s, x); }
  static State join(State a, State b) { return multiply(a, b); }
  static C value(thread const State& s) { return s; }
};
// The low part is no more than what rounding left behind, so that it need not be told apart from the high one.
struct ProductLanes;
template <>
struct Product<float> {
  typedef Pair State;
  typedef ProductLanes Lanes;
  enum : bool { kSlow = true };
  static State identity() { return {1.0f, 0.0f}; }
  static void next(thread State& s, float x, uint) {
    const float product = s.high * x;
    s.low = fma(s.low, x, fma(s.high, x, -product));
    s.high = product;
  }
  static State join(State a, State b) {
    multiply_by(a, b.high, b.low);
    return a;
  }
  static float value(thread const State& s) { return is_infinite(s.high) ? s.high : s.high + s.low; }
};
struct ProductLanes {
  float high[kScanRows], low[kScanRows];
  static void start(threadgroup ProductLanes& s) {
    for (uint r = 0; r < kScanRows; ++r) {
      s.high[r] = 1.0f;
      s.low[r] = 0.0f;
    }
  }
  static void next(threadgroup ProductLanes& s, threadgroup const float* x, threadgroup float* values, uint i) {
    MPSX_VECTORIZE
    for (uint r = 0; r < kScanRows; ++r) {
      Pair one = {s.high[r], s.low[r]};
      Product<float>::next(one, x[r], i);
      s.high[r] = one.high;
      s.low[r] = one.low;
      values[r] = Product<float>::value(one);
    }
  }
};
struct FloatProduct {
  typedef float State;
  typedef SideBySide<FloatProduct, float> Lanes;
  enum : bool { kSlow = true };
  static State identity() { return 1.0f; }
  static void next(thread State& s, float x, uint) { s *= x; }
  static State join(State a, State b) { return a * b; }
  static float value(thread const State& s) { return s; }
};
template <typename T> struct ProductOf { typedef Product<compute_t<T>> type; };
template <> struct ProductOf<half> { typedef FloatProduct type; };
template <> struct ProductOf<bfloat> { typedef FloatProduct type; };

// The largest exponent seen, and the sum of exp(x - top).
struct LogSumExp {
  typedef SideBySide<LogSumExp, float> Lanes;
  enum : bool { kSlow = true };
  struct State {
    float top;
    Pair sum;
  };
  static State identity() { return {-INFINITY, {0.0f, 0.0f}}; }
  // One exponential an element: of the difference, whichever of the two is larger.
  static void next(thread State& s, float x, uint) {
    const bool later = !(x <= s.top);  // also where one is NaN, which then stays
    const float scale = x == s.top ? 1.0f : precise::exp(later ? s.top - x : x - s.top);  // inf - inf would be NaN
    multiply_by(s.sum, later ? scale : 1.0f, 0.0f);
    add_to(s.sum, later ? 1.0f : scale, 0.0f);
    s.top = later ? x : s.top;
  }
  static State join(State a, State b) {
    const bool later = !(b.top <= a.top);
    const float top = later ? b.top : a.top;
    multiply_by(a.sum, a.top == top ? 1.0f : precise::exp(a.top - top), 0.0f);
    multiply_by(b.sum, b.top == top ? 1.0f : precise::exp(b.top - top), 0.0f);
    add_to(a.sum, b.sum.high, b.sum.low);
    a.top = top;
    return a;
  }
  static float value(thread const State& s) { return precise::log(value_of(s.sum)) + s.top; }
};

template <typename T> struct LogSumExpOf { typedef LogSumExp type; };

template <typename T, typename S>
struct Accumulated {
  device T* out;
  typedef compute_t<T> Value;
  static Value value(thread const typename S::State& s) { return S::value(s); }
  void write(uint i, Value v) const { out[i] = T(v); }
  Accumulated at(ulong offset) const { return {out + offset}; }
};

template <typename T, typename S>
kernel void accumulate_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                            constant ScanParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State scratch[kScanThreads];
  threadgroup compute_t<T> tile[kScanTile * kScanRows];
  threadgroup compute_t<T> values[kScanTile * kScanRows];
  threadgroup typename S::Lanes lanes;
  scan_rows<S>(in, Accumulated<T, S>{out}, p, scratch, lanes, tile, values, g);
}
// Two columns, as of complex numbers, in the lanes of a vector: what Sum<float> does, in half as many steps.
#if !MPSX_VECTOR_BYTES
template <typename S> struct PairScan {
  template <typename T>
  static bool run(device T*, device const T*, constant ScanParams&) { return false; }
};
template <>
struct PairScan<Sum<float>> {
  typedef float Two __attribute__((ext_vector_type(2)));
  static bool run(device float* out, device const float* x, constant ScanParams& p) {
    Two high = 0.0f, low = 0.0f, block = 0.0f;
    for (uint line = 0; line < p.size; ++line) {
      Two next, value;
      __builtin_memcpy(&next, x + ulong(line) * p.inner, sizeof next);
      block += next;
      value = high + ((low != low ? Two(0.0f) : low) + block);  // of an infinite sum the low part is NaN
      __builtin_memcpy(out + ulong(line) * p.inner, &value, sizeof value);
      if (line % Sum<float>::kBlock != Sum<float>::kBlock - 1) continue;
      const Two sum = high + block, shadow = sum - high;  // add_to
      const Two error = (high - (sum - shadow)) + (block - shadow) + low;
      const Two rest = sum - sum != Two(0.0f) ? Two(0.0f) : error;
      high = sum + rest;
      low = rest - (high - sum);
      block = 0.0f;
    }
    return true;
  }
};
// Of halves, which are made floats and back some lines at a time.
template <>
struct PairScan<FloatSum> {
  template <typename T>
  static bool run(device T* out, device const T* x, constant ScanParams& p) {
    typedef float Two __attribute__((ext_vector_type(2)));
    enum : uint { kLines = 16 };
    if (p.inner != 2) return false;
    float tile[2 * kLines];
    Two sum = 0.0f;
    for (uint first = 0; first < p.size; first += kLines) {
      const uint n = min(uint(kLines), p.size - first);
      device const T* from = x + 2 * ulong(first);
      device T* to = out + 2 * ulong(first);
      MPSX_VECTORIZE
      for (uint i = 0; i < 2 * n; ++i) tile[i] = float(from[i]);
      for (uint i = 0; i < n; ++i) {
        Two next;
        __builtin_memcpy(&next, tile + 2 * i, sizeof next);
        sum += next;
        __builtin_memcpy(tile + 2 * i, &sum, sizeof sum);
      }
      MPSX_VECTORIZE
      for (uint i = 0; i < 2 * n; ++i) to[i] = T(tile[i]);
    }
    return true;
  }
};
#endif

template <typename T, typename S>
kernel void accumulate_columns(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                               constant ScanParams& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State state[kScanColumns];
  const ulong begin = scan_column_begin(p, g.group);
#if !MPSX_VECTOR_BYTES
  if (g.count == 1 && scan_column_count(p, g.group) == 2 && PairScan<S>::run(out + begin, in + begin, p)) return;
#endif
  scan_columns<S>(in + begin, Accumulated<T, S>{out + begin}, p, scan_column_count(p, g.group), state, g);
}

#define MPSX_ACCUMULATE(T, TAG, NAME, OP)                                           \
  MPSX_KERNEL(#NAME "_rows_" #TAG, accumulate_rows<T, typename OP<T>::type>)          \
  MPSX_KERNEL(#NAME "_columns_" #TAG, accumulate_columns<T, typename OP<T>::type>)
MPSX_FOR_REAL(MPSX_ACCUMULATE, cumsum, SumOf)
MPSX_FOR_REAL(MPSX_ACCUMULATE, cumprod, ProductOf)
MPSX_FOR_FLOAT(MPSX_ACCUMULATE, logcumsumexp, LogSumExpOf)
