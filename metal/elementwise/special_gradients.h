// Derivatives of gamma and Dirichlet samples with respect to the parameters of the distribution: -(d cdf / d alpha) /
// pdf. The approximations and coefficients are those of PyTorch (F. Obermeyer, ATen/native/Distributions.h). They are
// rearranged to avoid cancellation and float overflow.
#pragma once

#include "elementwise/special_gamma.h"
#include "lib/log1p.h"

constant float kGammaGradient[3][8] = {
    {0.16009398f, -0.094634809f, 0.025146376f, -0.0030648343f, 1.0f, 0.32668115f, 0.10406089f, 0.0014179084f},
    {0.53487893f, 0.1298071f, 0.065735949f, -0.0015649758f, 0.16639465f, 0.020070113f, -0.0035938915f, -0.00058392623f},
    {0.040121004f, -0.0065914022f, -0.0026286047f, -0.0013441777f, 0.017050642f, -0.0021309326f, 0.00085092367f,
     -1.5247877e-07f}};

// Uses a Taylor series for small x, Rice's saddle point expansion for large alpha, and a rational function otherwise.
inline float gamma_gradient(float alpha, float x) {
  if (x < 0.8f) {
    float term = 1.0f, first = 1.0f / alpha, second = first * first;
    for (uint i = 1; i <= 5; ++i) {
      const float below = 1.0f / (alpha + float(i));
      term *= -x / float(i);
      first += term * below;
      second += term * below * below;
    }
    const float result = x * precise::exp(x) * (second - (precise::log(x) - digamma(alpha)) * first);
    return isnan(result) ? 0.0f : result;
  }
  const float i = 1.0f / alpha, r = x / alpha, s = (x - alpha) / alpha;
  if (alpha > 8.0f) {
    if (0.9f * alpha <= x && x <= 1.1f * alpha) {
      const float even = 288.0f + i * (24.0f + i);
      const float rest = 1440.0f + 6.0f * r * (53.0f * i - 120.0f * r) - 65.0f * r * r * i + 107.0f * i + 3600.0f * r;
      return even * rest / 1244160.0f;
    }
    const float root = precise::sqrt(8.0f * alpha), deviance = -alpha * log1p_less(s);
    const float third = precise::rsqrt(deviance) / deviance;
    const float both = -root * i / s + (s < 0.0f ? -third : third);
    const float log_r = fabs(s) < 0.5f ? log1p(s) : precise::log(r);
    const float first = log_r * both - precise::sqrt(2.0f * i) * i * (1.0f + r) / (s * s);
    const float stirling = 1.0f + i * (1.0f / 12) * (1.0f + i * (1.0f / 24));
    return -stirling * x * first / root;
  }
  const float u = precise::log(r), v = precise::log(alpha);
  float c[8];
  for (uint k = 0; k < 8; ++k) c[k] = kGammaGradient[0][k] + u * (kGammaGradient[1][k] + u * kGammaGradient[2][k]);
  const float above = c[0] + v * (c[1] + v * (c[2] + v * c[3])), below = c[4] + v * (c[5] + v * (c[6] + v * c[7]));
  return precise::exp(above / below);
}

// Returns digamma(x + more) - digamma(x) for nonnegative arguments.
inline float digamma_step(float x, float more) {
  float sum = 0.0f;
  for (; x < 10.0f; x += 1.0f) sum += more / (x * (x + more));
  const float y = x + more, p = 1.0f / (x * x), q = 1.0f / (y * y);
  sum += log1p(more / x) + 0.5f * more / (x * y);
  return sum - (q * polynomial(q, kDigamma, 7) - p * polynomial(p, kDigamma, 7));
}

// Gradients of a Beta(alpha, beta) sample close to 0, with respect to alpha and beta.
inline float beta_gradient_alpha(float x, float alpha, float beta) {
  const float factor = -digamma_step(alpha + 1.0f, beta - 1.0f) - precise::log(x);  // as psi(a + 1) = psi(a) + 1 / a
  float term = 1.0f, sum = factor / alpha;
  for (float i = 1.0f; i <= 10.0f; i += 1.0f) {
    term *= (i - beta) * x / i;
    const float below = 1.0f / (alpha + i);
    sum += term * below * (factor - i * below / alpha);
  }
  const float result = x * precise::exp(-beta * log1p(-x)) * sum;
  return isnan(result) ? 0.0f : result;
}
inline float beta_gradient_beta(float x, float alpha, float beta) {
  const float factor = digamma_step(beta, alpha);
  float term = 1.0f, product = 1.0f, slope = 0.0f, sum = factor / alpha;
  for (float i = 1.0f; i <= 8.0f; i += 1.0f) {
    term *= -x / i;
    slope = slope * (beta - i) + product;
    product *= beta - i;
    sum += term / (alpha + i) * (slope + factor * product);
  }
  const float result = -precise::exp((1.0f - beta) * log1p(-x)) * sum;
  return isnan(result) ? 0.0f : result;
}

inline float stirling_series(float x) { return 1.0f + (1.0f / 12 + 1.0f / (288.0f * x)) / x; }
// Rice's saddle point expansion for large alpha and beta. d is x - alpha / total.
inline float beta_gradient_large(float x, float alpha, float beta) {
  const float total = alpha + beta, mean = alpha / total, other = beta / total;
  const float spread = precise::sqrt(alpha * beta / (total + 1.0f)) / total;
  const float d = x - mean;
  if (fabs(d) <= 0.1f * spread) {
    const float r = alpha / beta, i = 1.0f / beta, y = 1.0f - x;
    // The polynomial divided by beta^5. Each power of alpha is divided by a power of beta.
    const float sum = 47.0f * x * i + r * ((43.0f * i + 20.0f * (16.0f * i + 27.0f) * x) +
                      r * ((177.0f * i + 540.0f - 270.0f * x * i) + r * ((453.0f * i + 1620.0f * y - 455.0f * x * i) +
                      r * 8.0f * y * (135.0f - 11.0f * i))));
    const float before = (i + 12.0f * r) * (i + 12.0f) / ((1.0f + r) * (1.0f + r));
    return before / y * sum / (12960.0f * r * r * r * (1.0f + 12.0f * total));
  }
  const float stirling = stirling_series(alpha) * stirling_series(beta) / stirling_series(total);
  const float moved = total * d;  // beta x - alpha (1 - x)
  const float first = -(2.0f * alpha * alpha * (1.0f - x) + alpha * beta * (1.0f - x) + x * beta * beta) /
                      (precise::sqrt(2.0f * alpha / beta) * total * precise::sqrt(total) * moved * moved);
  const float second = -0.5f * (fabs(d) < 0.5f * mean ? log1p(d / mean) : precise::log(x / mean));
  const float third = precise::sqrt(8.0f * alpha * other) / moved;
  const float deviance = -(beta * log1p_less(-d / other) + alpha * log1p_less(d / mean));
  const float fourth = precise::rsqrt(deviance) / deviance;
  const float sum = first + second * (third + (d < 0.0f ? fourth : -fourth));
  return -stirling * x / precise::sqrt(2.0f * alpha * other) * sum;
}

constant float kBetaGradient[2][3][3][4] = {
    {{{1.003668233f, -0.01061107488f, -0.0657888334f, 0.01201642863f},
      {0.6336835991f, -0.3557432599f, 0.05486251648f, -0.001465281033f},
      {-0.03276231906f, 0.004474107445f, 0.002429354597f, -0.0001557569013f}},
     {{0.221950385f, -0.3187676331f, 0.01799915743f, 0.01074823814f},
      {-0.2951249643f, 0.06219954479f, 0.01535556598f, 0.001550077057f},
      {0.02155310298f, 0.004170831599f, 0.001292462449f, 6.976601077e-05f}},
     {{-0.05980841433f, 0.008441916499f, 0.01085618172f, 0.002319392565f},
      {0.02911413504f, 0.01400243777f, -0.002721828457f, 0.000751041181f},
      {0.005900514878f, -0.001936558688f, -9.495446725e-06f, 5.385558597e-05f}}},
    {{{1.0f, -0.02924021934f, -0.04438342661f, 0.007285809825f},
      {0.6357567472f, -0.3473456711f, 0.05454656494f, -0.002407477521f},
      {-0.03301322327f, 0.004845219414f, 0.00231480583f, -0.0002307248149f}},
     {{0.5925320577f, -0.1757678135f, 0.01505928619f, 0.000564515273f},
      {0.1014815858f, -0.06589186703f, 0.01272886114f, -0.0007316646956f},
      {-0.007258481865f, 0.001096195486f, 0.0003934994223f, -4.12701925e-05f}},
     {{0.06469649321f, -0.0236701437f, 0.002902096474f, -5.896963079e-05f},
      {0.001925008108f, -0.002869809258f, 0.0008000589141f, -6.063713228e-05f},
      {-0.0003477407336f, 6.959756487e-05f, 1.097287507e-05f, -1.650964693e-06f}}}};

// Returns the gradient divided by 1 - x, for total = alpha + beta.
inline float dirichlet_gradient(float x, float alpha, float total) {
  const float beta = total - alpha, boundary = total * x * (1.0f - x);
  if (x <= 0.5f && boundary < 2.5f) return beta_gradient_alpha(x, alpha, beta);
  if (x >= 0.5f && boundary < 0.75f) return -beta_gradient_beta(1.0f - x, beta, alpha);
  if (alpha > 6.0f && beta > 6.0f) return beta_gradient_large(x, alpha, beta);
  const float u = precise::log(x), a = precise::log(alpha) - u, b = precise::log(total) - a;
  float sum[2];
  for (uint k = 0; k < 2; ++k) {
    float rows[3];
    for (uint i = 0; i < 3; ++i) {
      rows[i] = 0.0f;
      for (int j = 2; j >= 0; --j) {
        constant float* c = kBetaGradient[k][i][j];
        rows[i] = rows[i] * a + (c[0] + b * (c[1] + b * (c[2] + b * c[3])));
      }
    }
    sum[k] = rows[0] + u * (rows[1] + u * rows[2]);
  }
  return sum[0] / sum[1] * (x * digamma_step(alpha, beta) / beta);
}
