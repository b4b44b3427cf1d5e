// Bessel functions of orders 0 and 1, and the Airy function Ai. The coefficients are from S. L. Moshier, Cephes
// Mathematical Library (j0.c, j1.c, i0.c, i1.c, k0.c, k1.c, airy.c), like those in PyTorch (ATen/native/Math.h). The
// series of I0 and I1 for x > 8 omit coefficients below float precision.
#pragma once

#include "elementwise/special_series.h"

constant float kJ0Numerator[] = {
    -4.79443221e+09f, 1.95617492e+12f, -2.49248344e+14f, 9.70862251e+15f};
constant float kJ0Denominator[] = {
    499.563147f, 173785.402f, 48440965.8f, 1.11855537e+10f, 2.1127752e+12f, 3.1051823e+14f, 3.18121956e+16f,
    1.71086294e+18f};
constant float kJ1Numerator[] = {
    -899971226.0f, 4.52228298e+11f, -7.27494245e+13f, 3.68295733e+15f};
constant float kJ1Denominator[] = {
    620.836478f, 256987.257f, 83514679.1f, 2.21511595e+10f, 4.74914122e+12f, 7.84369608e+14f, 8.95222336e+16f,
    5.3227862e+18f};
constant float kY0Numerator[] = {
    15592.4368f, -14663929.6f, 5.43526477e+09f, -9.82136066e+11f, 8.75906394e+13f, -3.46628303e+15f,
    4.42733269e+16f, -1.849508e+16f};
constant float kY0Denominator[] = {
    1041.28354f, 626107.33f, 268919633.0f, 8.64002487e+10f, 2.02979613e+13f, 3.17157753e+15f, 2.50596256e+17f};
constant float kY1Numerator[] = {
    1.26320475e+09f, -6.47355876e+11f, 1.14509512e+14f, -8.12770256e+15f, 2.02439476e+17f, -7.78877196e+17f};
constant float kY1Denominator[] = {
    594.301592f, 235564.093f, 73481194.4f, 1.87601316e+10f, 3.88231277e+12f, 6.20557727e+14f, 6.87141087e+16f,
    3.97270608e+18f};
constant float kOrder0PP[] = {
    0.000796936729f, 0.0828352392f, 1.23953372f, 5.44725003f, 8.747165f, 5.30324038f, 1.0f};
constant float kOrder0PQ[] = {
    0.000924408811f, 0.0856288474f, 1.25352744f, 5.4709774f, 8.76190883f, 5.30605288f, 1.0f};
constant float kOrder0QP[] = {
    -0.0113663839f, -1.28252719f, -19.5539544f, -93.2060152f, -177.681168f, -147.077505f, -51.4105327f,
    -6.05014351f};
constant float kOrder0QQ[] = {
    64.3178256f, 856.430026f, 3882.40184f, 7240.46774f, 5930.72701f, 2062.09332f, 242.00574f};
constant float kOrder1PP[] = {
    0.000762125616f, 0.0731397057f, 1.12719608f, 5.11207951f, 8.4240459f, 5.21451599f, 1.0f};
constant float kOrder1PQ[] = {
    0.000571323128f, 0.0688455909f, 1.10514233f, 5.07386386f, 8.39985554f, 5.20982849f, 1.0f};
constant float kOrder1QP[] = {
    0.0510862595f, 4.98213873f, 75.8238284f, 366.779609f, 710.856305f, 597.489612f, 211.688757f, 25.2070206f};
constant float kOrder1QQ[] = {
    74.2373277f, 1056.44886f, 4986.41058f, 9562.31892f, 7997.0416f, 2826.19279f, 336.093608f};
constant float kI0Small[] = {
    5.84791131e-25f, 1.31578005e-22f, 2.57892889e-20f, 4.35838982e-18f, 6.27608135e-16f, 7.59405843e-14f,
    7.59405843e-12f, 6.15118733e-10f, 3.93675989e-08f, 1.92901235e-06f, 6.94444444e-05f, 0.00173611111f,
    0.0277777778f, 0.25f, 1.0f, 1.0f};
constant float kI0Large[] = {
    4.94060239e-10f, 3.39623203e-09f, 2.26666899e-08f, 2.04891859e-07f, 2.89137052e-06f, 6.88975835e-05f,
    0.00336911648f, 0.804490411f};
constant float kI1Small[] = {
    1.82747229e-26f, 4.38593349e-24f, 9.21046032e-22f, 1.67630378e-19f, 2.61503389e-17f, 3.45184474e-15f,
    3.79702921e-13f, 3.41732629e-11f, 2.46047493e-09f, 1.37786596e-07f, 5.78703704e-06f, 0.000173611111f,
    0.00347222222f, 0.0416666667f, 0.25f, 0.5f};
constant float kI1Large[] = {
    -5.58974346e-10f, -3.83538039e-09f, -2.63146885e-08f, -2.51223624e-07f, -3.88256481e-06f, -0.000110588939f,
    -0.00976109749f, 0.778576235f};
constant float kK0Small[] = {
    1.37446544e-16f, 4.25981614e-14f, 1.03496953e-11f, 1.90451638e-09f, 2.53479108e-07f, 2.2862121e-05f,
    0.00126461541f, 0.0359799365f, 0.3442899f, -0.535327393f};
constant float kK0Large[] = {
    5.30043377e-18f, -1.64758043e-17f, 5.21039151e-17f, -1.6782311e-16f, 5.51205598e-16f, -1.84859338e-15f,
    6.34007648e-15f, -2.22751333e-14f, 8.03289078e-14f, -2.98009692e-13f, 1.14034059e-12f, -4.51459788e-12f,
    1.85594911e-11f, -7.95748924e-11f, 3.57739728e-10f, -1.69753451e-09f, 8.57403402e-09f, -4.6604899e-08f,
    2.76681364e-07f, -1.83175552e-06f, 1.39498137e-05f, -0.000128495496f, 0.00156988389f, -0.0314481013f,
    2.44030308f};
constant float kK1Small[] = {
    -7.02386348e-18f, -2.42744985e-15f, -6.66690169e-13f, -1.41148839e-10f, -2.21338763e-08f, -2.43340614e-06f,
    -0.000173028896f, -0.00697572386f, -0.122611181f, -0.353155961f, 1.52530023f};
constant float kK1Large[] = {
    -5.75674448e-18f, 1.79405087e-17f, -5.68946256e-17f, 1.83809354e-16f, -6.05704725e-16f, 2.03870317e-15f,
    -7.01983709e-15f, 2.47715442e-14f, -8.97670518e-14f, 3.34841967e-13f, -1.28917396e-12f, 5.13963967e-12f,
    -2.12996784e-11f, 9.21831519e-11f, -4.19035476e-10f, 2.01504976e-09f, -1.03457625e-08f, 5.74108413e-08f,
    -3.5019606e-07f, 2.40648495e-06f, -1.93619797e-05f, 0.000195215518f, -0.00285781686f, 0.103923737f,
    2.72062619f};
constant float kTwoOverPi = 0.636619772f, kSqrtTwoOverPi = 0.797884561f;

// Hankel's asymptotic form for x > 5. The first kind (J) is sqrt(2 / (pi x)) (P cos(x - phase) - Q sin(x - phase)), and
// the second kind (Y) is sqrt(2 / (pi x)) (P sin(x - phase) + Q cos(x - phase)).
struct Hankel {
  float p, q, scale;
};
inline Hankel hankel_0(float x) {
  const float w = 5.0f / x, z = w * w;
  return {polynomial(z, kOrder0PP, 7) / polynomial(z, kOrder0PQ, 7),
          w * polynomial(z, kOrder0QP, 8) / monic(z, kOrder0QQ, 7), kSqrtTwoOverPi * rsqrt(x)};
}
inline Hankel hankel_1(float x) {
  const float w = 5.0f / x, z = w * w;
  return {polynomial(z, kOrder1PP, 7) / polynomial(z, kOrder1PQ, 7),
          w * polynomial(z, kOrder1QP, 8) / monic(z, kOrder1QQ, 7), kSqrtTwoOverPi * rsqrt(x)};
}
inline float hankel_first(Hankel h, float angle) {
  return (h.p * precise::cos(angle) - h.q * precise::sin(angle)) * h.scale;
}
inline float hankel_second(Hankel h, float angle) {
  return (h.p * precise::sin(angle) + h.q * precise::cos(angle)) * h.scale;
}

inline float bessel_j0(float x) {
  x = fabs(x);
  if (x > 5.0f) return hankel_first(hankel_0(x), x - M_PI_4_F);
  const float z = x * x;
  if (x < 1e-5f) return 1.0f - z * 0.25f;
  // 5.78 and 30.47 are the squares of the first two zeros of J0.
  return (z - 5.78318596f) * (z - 30.4712623f) * polynomial(z, kJ0Numerator, 4) / monic(z, kJ0Denominator, 8);
}
inline float bessel_j1(float x) {
  const float a = fabs(x);
  if (a > 5.0f) return copysign(1.0f, x) * hankel_first(hankel_1(a), a - 2.35619449f);
  const float z = x * x;
  return polynomial(z, kJ1Numerator, 4) / monic(z, kJ1Denominator, 8) * x * (z - 14.6819706f) * (z - 49.2184563f);
}
inline float bessel_y0(float x) {
  if (x > 5.0f) return hankel_second(hankel_0(x), x - M_PI_4_F);
  if (x == 0.0f) return -INFINITY;
  if (x < 0.0f) return NAN;
  const float z = x * x;
  return polynomial(z, kY0Numerator, 8) / monic(z, kY0Denominator, 7) + kTwoOverPi * precise::log(x) * bessel_j0(x);
}
inline float bessel_y1(float x) {
  if (x > 5.0f) return hankel_second(hankel_1(x), x - 2.35619449f);
  if (x == 0.0f) return -INFINITY;
  if (x < 0.0f) return NAN;
  const float z = x * x;
  return x * (polynomial(z, kY1Numerator, 6) / monic(z, kY1Denominator, 8)) +
         kTwoOverPi * (bessel_j1(x) * precise::log(x) - 1.0f / x);
}
inline float spherical_bessel_j0(float x) {
  if (isinf(x)) return 0.0f;
  if (fabs(x) >= 0.5f) return precise::sin(x) / x;
  const float z = x * x;
  return 1.0f + z * (-1.0f / 6 + z * (1.0f / 120 + z * (-1.0f / 5040 + z * (1.0f / 362880))));
}

// I0 and I1, divided by exp(|x|) if `scaled`. For |x| up to 8, they sum the power series
// (https://dlmf.nist.gov/10.25.E2), whose terms all have the same sign, so nothing cancels.
inline float bessel_i0(float x, bool scaled) {
  const float a = fabs(x), power = precise::exp(scaled ? -a : a);
  const float small = polynomial(a * a * 0.25f, kI0Small, 16) * (scaled ? power : 1.0f);
  const float large = chebyshev(32.0f / a - 2.0f, kI0Large, 8) / precise::sqrt(a) * (scaled ? 1.0f : power);
  return a > 8.0f ? large : small;
}
inline float bessel_i1(float x, bool scaled) {
  const float a = fabs(x), power = precise::exp(scaled ? -a : a);
  const float small = polynomial(a * a * 0.25f, kI1Small, 16) * a * (scaled ? power : 1.0f);
  const float large = chebyshev(32.0f / a - 2.0f, kI1Large, 8) / precise::sqrt(a) * (scaled ? 1.0f : power);
  const float y = a > 8.0f ? large : small;
  return x < 0.0f ? -y : y;
}

// K0 and K1, multiplied by exp(x) if `scaled`.
inline float bessel_k0(float x, bool scaled) {
  if (x == 0.0f) return INFINITY;
  if (x < 0.0f) return NAN;
  if (x <= 2.0f) {
    const float y = chebyshev(x * x - 2.0f, kK0Small, 10) - precise::log(0.5f * x) * bessel_i0(x, false);
    return scaled ? y * precise::exp(x) : y;
  }
  const float y = chebyshev(8.0f / x - 2.0f, kK0Large, 25) / precise::sqrt(x);
  return scaled ? y : y * precise::exp(-x);
}
inline float bessel_k1(float x, bool scaled) {
  if (x == 0.0f) return INFINITY;
  if (x < 0.0f) return NAN;
  if (x <= 2.0f) {
    const float y = precise::log(0.5f * x) * bessel_i1(x, false) + chebyshev(x * x - 2.0f, kK1Small, 11) / x;
    return scaled ? y * precise::exp(x) : y;
  }
  const float y = chebyshev(8.0f / x - 2.0f, kK1Large, 25) / precise::sqrt(x);
  return scaled ? y : y * precise::exp(-x);
}

constant float kAiryNumerator[] = {
    0.346538102f, 12.0075953f, 76.2796054f, 168.089225f, 159.756391f, 70.5360907f, 14.0264691f, 1.0f};
constant float kAiryDenominator[] = {
    0.567594533f, 14.7562563f, 84.513897f, 177.318088f, 164.234693f, 71.4778401f, 14.0959136f, 1.0f};
constant float kAirySineNumerator[] = {
    -0.131696323f, -0.626456544f, -0.693158036f, -0.279779982f, -0.0491900133f, -0.00406265924f, -0.000159276496f,
    -2.77649108e-06f, -1.67787698e-08f};
constant float kAirySineDenominator[] = {
    13.3560421f, 32.6825033f, 26.7367041f, 9.18707403f, 1.47529147f, 0.115687174f, 0.00440291642f, 7.54720348e-05f,
    4.51850093e-07f};
constant float kAiryCosineNumerator[] = {
    0.0197339932f, 0.39110303f, 1.06579898f, 0.93916923f, 0.351465656f, 0.063388892f, 0.00585804113f,
    0.000282851601f, 6.9879367e-06f, 8.1178924e-08f, 3.41551785e-10f};
constant float kAiryCosineDenominator[] = {
    9.30892908f, 19.8352929f, 15.5646629f, 5.47686069f, 0.954293612f, 0.0864580826f, 0.00412656524f,
    0.000101259085f, 1.17166733e-06f, 4.9183457e-09f};

inline float airy_ai(float x) {
  constexpr float kOneOverSqrtPi = 0.564189584f;
  if (isinf(x)) return NAN;
  if (x > 103.892f) return 0.0f;
  if (x < -2.09f) {
    const float root = precise::sqrt(-x), zeta = -2.0f * x * root / 3.0f, z = 1.0f / zeta, zz = z * z;
    const float f = 1.0f + zz * polynomial(zz, kAirySineNumerator, 9) / monic(zz, kAirySineDenominator, 9);
    const float g = z * polynomial(zz, kAiryCosineNumerator, 11) / monic(zz, kAiryCosineDenominator, 10);
    const float angle = zeta + M_PI_4_F;
    return kOneOverSqrtPi / precise::sqrt(root) * (precise::sin(angle) * f - precise::cos(angle) * g);
  }
  if (x >= 2.09f) {
    const float root = precise::sqrt(x), zeta = 2.0f * x * root / 3.0f, z = 1.0f / zeta;
    return kOneOverSqrtPi * polynomial(z, kAiryNumerator, 8) / polynomial(z, kAiryDenominator, 8) /
           (2.0f * precise::sqrt(root) * precise::exp(zeta));
  }
  // Ai combines two solutions of Airy's equation. These are their Maclaurin series.
  const float cube = x * x * x;
  float f = 1.0f, g = x, term_f = 1.0f, term_g = x;
  for (float k = 2.0f; k < 60.0f && fabs(term_f) > 1e-9f * fabs(f); k += 3.0f) {
    term_f *= cube / (k * (k + 1.0f));
    term_g *= cube / ((k + 1.0f) * (k + 2.0f));
    f += term_f;
    g += term_g;
  }
  return 0.355028054f * f - 0.258819404f * g;
}
