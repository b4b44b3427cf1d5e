// Cross entropy on the host driver. Makes two passes over a row instead of one, because then the compiler can vectorize
// both loops.
#pragma once

struct HalfExpSubMax {
  float row_max;
  float at(float x) const { return HalfExp().at(x - row_max); }
};

template <typename T>
inline float2 online_softmax(thread RegisterRow<Loader<T>>& row) {
  const float row_max = fmax(row.thread_max(), -FLT_MAX);
  return float2(row_max, row.sum(HalfExpSubMax{row_max}));
}
