// GEMV on the host driver, where a threadgroup is one thread.
#pragma once

template <typename S, typename A, typename B>
inline S thread_dot(device const A* x, device const B* y, uint count, bool, RowGroup) {
  S sum = S(0);
  MPSX_REDUCE(+ : sum)
  for (uint k = 0; k < count; ++k) sum += S(x[k]) * S(y[k]);
  return sum;
}
