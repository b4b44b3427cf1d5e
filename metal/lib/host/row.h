// Rows on the host driver, where a threadgroup is one thread. Every pass reads the row again, which stays in the L1
// cache. Sums are computed in blocks of 8192 elements to limit the rounding error of long rows.
#pragma once

#include "lib/float_order.h"

enum : uint { kSumBlock = 8192 };

struct NoAux {
  uint kind() const { return 0; }
  template <uint KIND>
  float of(uint) const { return 0.0f; }
};

template <typename In>
struct RegisterRow {
  In in;
  uint n;
  void open(In from, uint, uint size, bool, RowGroup) { in = from, n = size; }
  void open(In from, constant RowShape& s, RowGroup) { in = from, n = s.size; }

  // Like the GPU version, ignores NaN. NaN propagates through the sum over the row instead.
  float thread_max() const {
    const In from = in;
    const uint count = n;
    int key = INT_MIN;
    MPSX_REDUCE(max : key)
    for (uint i = 0; i < count; ++i) {
      const int k = float_order(from.scalar(i));
      key = key < k ? k : key;
    }
    return float_of_order(key);
  }

  template <typename F, typename G>
  float2 sums(F f, G g) const {
    float a = 0.0f, b = 0.0f;
    for (uint first = 0; first < n;) {
      const uint end = first + min(uint(kSumBlock), n - first);
      float s = 0.0f, t = 0.0f;
      MPSX_REDUCE(+ : s, t)
      for (uint i = first; i < end; ++i) {
        const auto v = in.scalar(i);
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
      for (uint i = first; i < end; ++i) s += f.at(from.scalar(i));
      total += s;
      first = end;
    }
    return total;
  }
  template <typename F>
  float map_sum(F f) const { return sum(f); }

  template <uint KIND, typename O, typename Aux, typename F>
  void store_kind(device O* y, Aux aux, F f) const {
    const In from = in;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) y[i] = O(f.at(from.scalar(i), aux.template of<KIND>(i)));
  }
  // Has a separate loop for each combination of optional operands.
  template <typename O, typename Aux, typename F>
  auto store_all(device O* y, Aux aux, F f, int) const -> decltype(aux.kind(), void()) {
    switch (aux.kind()) {
      case 0: return store_kind<0>(y, aux, f);
      case 1: return store_kind<1>(y, aux, f);
      case 2: return store_kind<2>(y, aux, f);
      default: return store_kind<3>(y, aux, f);
    }
  }
  template <typename O, typename Aux, typename F>
  void store_all(device O* y, Aux aux, F f, long) const {
    const In from = in;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) y[i] = O(f.at(from.scalar(i), aux.scalar(i)));
  }
  template <typename O, typename Aux, typename F>
  void store(device O* y, Aux aux, F f) const { store_all(y, aux, f, 0); }
  template <typename O, typename F>
  void store_scaled(device O* y, F f, float scale) const {
    const In from = in;
    MPSX_VECTORIZE
    for (uint i = 0; i < n; ++i) y[i] = O(f.at(from.scalar(i)) * scale);
  }
};
