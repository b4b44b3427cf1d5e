// Rows where a threadgroup is one thread: what registers are to a GPU, the first cache is here, and every pass is a
// loop over it. Sums are taken over 8192 elements at a time, so that the error of a long row grows slowly.
#pragma once

enum : uint { kSumBlock = 8192 };

template <typename In, uint BYTES = 4 * kHeldValues>
struct Row {
  In in;
  uint n;
  void begin(In from, uint, uint size, bool, Team) { in = from, n = size; }
  void open(In from, constant RowShape& s, Team) { in = from, n = s.size; }

  float largest() const {
    int key = INT_MIN;
    MPSX_REDUCE(max : key)
    for (uint i = 0; i < n; ++i) {
      const int k = ordered_max(in.one(i));
      key = key < k ? k : key;
    }
    return value_of_max(key);
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
  float sum(F f) const { return sums(f, Nothing()).x; }
  template <typename F>
  float map_sum(F f) const { return sum(f); }

  template <typename O, typename Extra, typename F>
  void store(device O* y, Extra extra, F f) const {
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) y[i] = O(f.at(in.one(i), extra.one(i)));
  }
  template <typename O, typename F>
  void store_scaled(device O* y, F f, float scale) const {
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) y[i] = O(f.at(in.one(i)) * scale);
  }
};
