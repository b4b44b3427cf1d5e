// Orthogonal polynomials, computed by recurrence. The degree is passed as a float and truncated to an integer.
#pragma once

#include "elementwise/special_series.h"

// Returns -1 for NaN and for degrees that do not fit into a long: polynomials of negative degree are 0. PyTorch on x86
// converts these degrees to the smallest long. A conversion that saturates yields the largest one, and the recurrences
// would not end.
inline long polynomial_degree(float degree) { return fabs(degree) < 9223372036854775808.0f ? long(degree) : -1l; }

// All Chebyshev polynomials have the same recurrence and differ only in the polynomial of degree 1.
inline float chebyshev_recurrence(float x, float first, long n) {
  float before = 1.0f, last = first;
  for (long k = 2; k <= n && !isnan(last); ++k) {
    const float next = (x + x) * last - before;
    before = last;
    last = next;
  }
  return last;
}
inline bool is_odd(long n) { return (n & 1) != 0; }

inline float chebyshev_t(float x, float degree) {
  const long n = polynomial_degree(degree);
  if (n < 0) return 0.0f;
  if (fabs(x) == 1.0f) return x < 0.0f && is_odd(n) ? -1.0f : 1.0f;
  if (n > 6 && fabs(x) < 1.0f) return precise::cos(float(n) * precise::acos(x));
  return n == 0 ? 1.0f : chebyshev_recurrence(x, x, n);
}
inline float chebyshev_u(float x, float degree) {
  const long n = polynomial_degree(degree);
  const float m = float(n + 1);
  if (n < 0) return 0.0f;
  if (fabs(x) == 1.0f) return x < 0.0f && is_odd(n) ? -m : m;
  if (n > 8 && fabs(x) < 1.0f) {
    const float angle = precise::acos(x), s = precise::sin(angle);
    return s != 0.0f ? precise::sin(m * angle) / s : m * precise::cos(m * angle) / x;
  }
  return n == 0 ? 1.0f : chebyshev_recurrence(x, x + x, n);
}
inline float chebyshev_v(float x, float degree) {
  const long n = polynomial_degree(degree);
  const float m = float(n + n + 1);
  if (n < 0) return 0.0f;
  if (fabs(x) == 1.0f) return x > 0.0f ? 1.0f : (is_odd(n) ? -m : m);
  if (n > 8 && fabs(x) < 1.0f) {
    const float angle = precise::acos(x);
    if (precise::sin(angle * 0.5f) == 1.0f) return is_odd(n) ? -m : m;
    return precise::cos((float(n) + 0.5f) * angle) / precise::cos(angle * 0.5f);
  }
  return n == 0 ? 1.0f : chebyshev_recurrence(x, x + x - 1.0f, n);
}
inline float chebyshev_w(float x, float degree) {
  const long n = polynomial_degree(degree);
  const float m = float(n + n + 1);
  if (n < 0) return 0.0f;
  if (fabs(x) == 1.0f) return x > 0.0f ? m : (is_odd(n) ? -1.0f : 1.0f);
  if (n > 8 && fabs(x) < 1.0f) {
    const float angle = precise::acos(x);
    if (precise::cos(angle * 0.5f) == 1.0f) return x > 0.0f ? m : (is_odd(n) ? -1.0f : 1.0f);
    return precise::sin((float(n) + 0.5f) * angle) / precise::sin(angle * 0.5f);
  }
  return n == 0 ? 1.0f : chebyshev_recurrence(x, x + x + 1.0f, n);
}

// Hermite polynomials: H(k + 1) = 2 x H(k) - 2 k H(k - 1), or He(k + 1) = x He(k) - k He(k - 1).
inline float hermite(float x, float degree, bool physicists) {
  const long n = polynomial_degree(degree);
  const float first = physicists ? x + x : x, weight = physicists ? 2.0f : 1.0f;
  if (n < 0) return 0.0f;
  if (n == 0) return 1.0f;
  if (n > 128) return NAN;  // PyTorch's limit for float
  float before = 1.0f, last = first;
  for (long k = 1; k < n; ++k) {
    const float next = fma(first, last, -(weight * float(k) * before));
    before = last;
    last = next;
  }
  return last;
}
inline float laguerre(float x, float degree) {
  const long n = polynomial_degree(degree);
  if (n < 0) return 0.0f;
  if (x == 0.0f || n == 0) return 1.0f;
  float before = 1.0f, last = 1.0f - x;
  for (long k = 1; k < n && !isnan(last); ++k) {
    const float next = ((float(k + k) + (1.0f - x)) * last - float(k) * before) / float(k + 1);
    before = last;
    last = next;
  }
  return last;
}
inline float legendre(float x, float degree) {
  const long n = polynomial_degree(degree);
  if (n < 0) return 0.0f;
  if (fabs(x) == 1.0f) return x < 0.0f && is_odd(n) ? -1.0f : 1.0f;
  if (n == 0) return 1.0f;
  float before = 1.0f, last = x;
  for (long k = 1; k < n && !isnan(last); ++k) {
    const float next = (float(k + k + 1) * x * last - float(k) * before) / float(k + 1);
    before = last;
    last = next;
  }
  return last;
}
