// Rejection samplers for distributions with tensor parameters.
#include "lib/instantiate.h"
#include "lib/log1p.h"
#include "lib/math.h"
#include "lib/random.h"
#include "random/params.h"

// The sequence of random numbers for one element.
struct Draws {
  ulong seed, counter;
  uint step;

  PhiloxBlock next() {
    ++step;
    return philox4x32(uint(counter), uint(counter >> 32), step, 0u, uint(seed), uint(seed >> 32));
  }
};
inline Draws draws_of(constant SampleParams& p, uint i) { return {p.seed, p.offset + i, 0u}; }

constant float kMinNormal = 1.17549435e-38f;
enum : uint { kMaxDraws = 10000 };  // all draws can be rejected only if a parameter is NaN

// G. Marsaglia, W. W. Tsang, "A simple method for generating gamma variables" (2000). Section 6 covers alpha < 1.
inline float gamma_sample(float alpha, Draws draws) {
  if (!(alpha > 0.0f)) return alpha == 0.0f ? 0.0f : NAN;
  const float d = (alpha < 1.0f ? alpha + 1.0f : alpha) - 1.0f / 3;
  const float c = precise::rsqrt(9.0f * d);
  float sample = NAN;
  for (uint i = 0; i < kMaxDraws; ++i) {
    const PhiloxBlock r = draws.next();
    const float x = box_muller(r.x, r.y).first, y = 1.0f + c * x, v = y * y * y;
    if (y <= 0.0f) continue;
    if (random_log(uniform_positive(r.z)) < 0.5f * x * x + d * (1.0f - v + precise::log(v))) {
      sample = d * v;
      if (alpha < 1.0f) sample *= precise::exp(random_log(uniform_positive(r.w)) / alpha);
      break;
    }
  }
  return sample < kMinNormal ? kMinNormal : sample;
}

kernel void sample_gamma_f32(device float* out [[buffer(0)]], device const float* alpha [[buffer(1)]],
                             constant SampleParams& p [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  out[i] = gamma_sample(alpha[i], draws_of(p, i));
}

// Terms of log-probabilities of counts, computed without cancellation (C. Loader, "Fast and accurate computation of
// binomial probabilities", 2000). log_deviance is log(mean^k e^(k - mean) / k^k), and log_factorial_part is log(k! e^k
// / k^k).
inline float log_deviance(float k, float mean) { return k > 0.0f ? k * log1p_less((mean - k) / k) : -mean; }
inline float log_factorial_part(float k) {
  if (k == 0.0f) return 0.0f;
  const float z = 1.0f / (k * k);
  const float rest = k == 1.0f ? 0.0810614668f : (1.0f / 12 - z * (1.0f / 360 - z * (1.0f / 1260))) / k;
  return rest + 0.5f * precise::log(2.0f * M_PI_F * k);
}

// For means of 10 or more, uses algorithm PTRS from W. Hörmann, "The transformed rejection method for generating
// Poisson random variables" (1993). For smaller means, multiplies uniform numbers (D. Knuth).
inline float poisson_sample(float mean, Draws draws) {
  if (!(mean > 0.0f)) return mean == 0.0f ? 0.0f : NAN;
  if (mean < 10.0f) {
    const float last = precise::exp(-mean);
    float product = 1.0f;
    PhiloxBlock r = {0, 0, 0, 0};
    for (uint k = 0; k < kMaxDraws; ++k) {
      const uint word = k % 4;
      if (word == 0) r = draws.next();
      product *= uniform_positive(word == 0 ? r.x : word == 1 ? r.y : word == 2 ? r.z : r.w);
      if (product <= last) return float(k);
    }
    return NAN;
  }
  const float root = precise::sqrt(mean), b = 0.931f + 2.53f * root, a = -0.059f + 0.02483f * b;
  const float inverse = 1.1239f + 1.1328f / (b - 3.4f), v_r = 0.9277f - 3.6224f / (b - 2.0f);
  for (uint i = 0; i < kMaxDraws; ++i) {
    const PhiloxBlock r = draws.next();
    const float u = uniform_positive(r.x) - 0.5f, v = uniform_positive(r.y), us = 0.5f - fabs(u);
    if (us <= 0.0f) continue;
    const float k = floor((2.0f * a / us + b) * u + mean + 0.43f);
    if (us >= 0.07f && v <= v_r) return k;
    if (k < 0.0f || (us < 0.013f && v > us)) continue;
    if (precise::log(v * inverse / (a / (us * us) + b)) <= log_deviance(k, mean) - log_factorial_part(k)) return k;
  }
  return NAN;
}

template <typename T>
kernel void sample_poisson(device T* out [[buffer(0)]], device const T* mean [[buffer(1)]],
                           constant SampleParams& p [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  out[i] = T(poisson_sample(float(mean[i]), draws_of(p, i)));
}
#define SAMPLE_POISSON(T, TAG, ...) MPSX_KERNEL("sample_poisson_" #TAG, sample_poisson<T>)
MPSX_FOR_FLOAT(SAMPLE_POISSON)

// Returns the log-probability of k successes in n trials.
inline float log_binomial(float n, float k, float p, float q) {
  return log_deviance(k, n * p) + log_deviance(n - k, n * q) + log_factorial_part(n) - log_factorial_part(k) -
         log_factorial_part(n - k);
}
// Returns a binomial sample for p <= 1/2. For means below 10, counts the trials up to each success (L. Devroye,
// "Non-uniform random variate generation", 1986, X.4.3). For larger means, uses W. Hörmann's algorithm BTRS, the
// simpler form of BTRD ("The generation of binomial random variates", 1993).
inline float few_of(float n, float p, Draws draws) {
  const float mean = n * p, q = 1.0f - p;
  if (mean < 10.0f) {
    const float slope = 1.0f / log1p(-p);
    float trials = 0.0f;
    PhiloxBlock r = {0, 0, 0, 0};
    for (uint k = 0; k < kMaxDraws; ++k) {
      const uint word = k % 4;
      if (word == 0) r = draws.next();
      const float u = uniform_positive(word == 0 ? r.x : word == 1 ? r.y : word == 2 ? r.z : r.w);
      trials += max(ceil(random_log(u) * slope), 1.0f);
      if (trials > n) return float(k);
    }
    return NAN;
  }
  const float root = precise::sqrt(mean * q), b = 1.15f + 2.53f * root, a = -0.0873f + 0.0248f * b + 0.01f * p;
  const float c = mean + 0.5f, v_r = 0.92f - 4.2f / b, alpha = (2.83f + 5.1f / b) * root;
  const float log_mode = log_binomial(n, floor((n + 1.0f) * p), p, q);
  for (uint i = 0; i < kMaxDraws; ++i) {
    const PhiloxBlock r = draws.next();
    const float u = uniform_positive(r.x) - 0.5f, v = uniform_positive(r.y), us = 0.5f - fabs(u);
    if (us <= 0.0f) continue;
    const float k = floor((2.0f * a / us + b) * u + c);
    if (k < 0.0f || k > n) continue;
    if (us >= 0.07f && v <= v_r) return k;
    if (precise::log(v * alpha / (a / (us * us) + b)) <= log_binomial(n, k, p, q) - log_mode) return k;
  }
  return NAN;
}

kernel void sample_binomial_f32(device float* out [[buffer(0)]], device const float* count [[buffer(1)]],
                                device const float* probability [[buffer(2)]], constant SampleParams& s [[buffer(3)]],
                                uint i [[thread_position_in_grid]]) {
  const float n = count[i], p = probability[i];
  float sample = NAN;
  if (n <= 0.0f || p <= 0.0f)
    sample = 0.0f;
  else if (p >= 1.0f)
    sample = n;
  else if (p <= 0.5f)
    sample = few_of(n, p, draws_of(s, i));
  else if (p > 0.5f)
    sample = n - few_of(n, 1.0f - p, draws_of(s, i));
  out[i] = sample;
}
