// Handles windows with at most two elements without a loop, so that the compiler vectorizes over adjacent windows.
#pragma once

template <typename C, typename T>
inline C largest(device const T* x, int first, int end, int step, int count) {
  C best = C(x[first]);
  if (count <= 2) return larger(best, C(x[first + step < end ? first + step : first]));
  MPSX_FEW
  for (int i = first + step; i < end; i += step) best = larger(best, C(x[i]));
  return best;
}
