// Rows where a threadgroup is one thread: what registers are to a GPU, the first cache is here, and every pass is a
// loop over it. Sums are taken over 8192 elements at a time, so that the error of a long row grows slowly.
#pragma once

enum : uint { kSumBlock = 8192 };

// No other operand: one kind.
struct NoExtra {
  uint kind() const { return 0; }
  template <uint KIND>
  float of(uint) const { return 0.0f; }
};

template <typename F>
struct Below {
  F f;
  float top;
  float at(float x) const { return f.at(x - top); }
};

template <typename In>
struct Row {
  In in;
  uint n;
  void begin(In from, uint, uint size, bool, Team) { in = from, n = size; }
  void open(In from, constant RowShape& s, Team) { in = from, n = s.size; }

  float2 sample() const { return float2(sum(Distance{0.0f, kSampleScale}), float(n)); }

  // Of numbers: a NaN may come out or not, as on a GPU, where its sum tells.
  float largest() const {
    const In from = in;
    const uint count = n;
    int key = INT_MIN;
    MPSX_REDUCE(max : key)
    for (uint i = 0; i < count; ++i) {
      const int k = float_order(from.one(i));
      key = key < k ? k : key;
    }
    return float_of_order(key);
  }

  template <typename F>
  float2 exp_sum(F f) const {
    const float top = fmax(largest(), -FLT_MAX);
    return float2(top, sum(Below<F>{f, top}));
  }

  template <typename F, typename G>
  float2 sums(F f, G g) const {
    float a = 0.0f, b = 0.0f;
    for (uint first = 0; first < n;) {
      const uint end = first + min(uint(kSumBlock), n - first);
      float s = 0.0f, t = 0.0f;
      MPSX_REDUCE(+ : s, t)
      for (uint i = first; i < end; ++i) {
        const auto v = in.one(i);
        s += f.at(v);
        t += g.at(v);
      }
      a += s, b += t;
      first = end;
    }
    return float2(a, b);
  }
  template <typename F>
  float sum(F f) const {
    const In from = in;
    float total = 0.0f;
    for (uint first = 0; first < n;) {
      const uint end = first + min(uint(kSumBlock), n - first);
      float s = 0.0f;
      MPSX_REDUCE(+ : s)
      for (uint i = first; i < end; ++i) s += f.at(from.one(i));
      total += s;
      first = end;
    }
    return total;
  }
  template <typename F>
  float map_sum(F f) const { return sum(f); }

  template <uint KIND, typename O, typename Extra, typename F>
  void store_kind(device O* y, Extra extra, F f) const {
    const In from = in;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) y[i] = O(f.at(from.one(i), extra.template of<KIND>(i)));
  }
  // An operand of several kinds has a loop for each.
  template <typename O, typename Extra, typename F>
  auto store_all(device O* y, Extra extra, F f, int) const -> decltype(extra.kind(), void()) {
    switch (extra.kind()) {
      case 0: return store_kind<0>(y, extra, f);
      case 1: return store_kind<1>(y, extra, f);
      case 2: return store_kind<2>(y, extra, f);
      default: return store_kind<3>(y, extra, f);
    }
  }
  template <typename O, typename Extra, typename F>
  void store_all(device O* y, Extra extra, F f, long) const {
    const In from = in;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) y[i] = O(f.at(from.one(i), extra.one(i)));
  }
  template <typename O, typename Extra, typename F>
  void store(device O* y, Extra extra, F f) const { store_all(y, extra, f, 0); }
  template <typename O, typename F>
  void store_scaled(device O* y, F f, float scale) const {
    const In from = in;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) y[i] = O(f.at(from.one(i)) * scale);
  }
};
