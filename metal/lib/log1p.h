// log(1 + s) - s without cancellation, for probabilities of the form exp(a (log(1 + s) - s)) with large a.
#pragma once

#include "lib/types.h"

// With t = s / (2 + s), log(1 + s) is 2 (t + t^3 / 3 + t^5 / 5 + …), and s is 2 t / (1 - t).
inline float log1p_less(float s) {
  if (fabs(s) > 0.5f) return precise::log(1.0f + s) - s;
  const float t = s / (2.0f + s), z = t * t;
  float p = 1.0f / 17;
  for (float k = 15.0f; k >= 3.0f; k -= 2.0f) p = p * z + 1.0f / k;
  return 2.0f * t * z * p - t * s;
}
