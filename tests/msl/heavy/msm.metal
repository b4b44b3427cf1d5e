// Multi-scalar multiplication on BN254: sums of scalar multiples of points, in G1 (coordinates in Fp) and in G2
// (coordinates in Fp2 = Fp[u] / (u^2 + 1)). Field elements are eight 32-bit integers in Montgomery form. Points use
// Jacobian coordinates.
#include <metal_stdlib>
using namespace metal;

constant uint MODULUS[8] = {0xd87cfd47, 0x3c208c16, 0x6871ca8d, 0x97816a91, 0x8181585d, 0xb85045b6, 0xe131a029, 0x30644e72};
constant uint INVERSE = 0xe4866389;  // -MODULUS^-1 mod 2^32
constant uint ONE[8] = {0xc58f0d9d, 0xd35d438d, 0xf5c70b3d, 0x0a78eb28, 0x7879462c, 0x666ea36f, 0x9a07df2f, 0x0e0a77c1};

struct Fp {
  uint limb[8];
  static Fp zero() {
    Fp r;
#pragma unroll
    for (int i = 0; i < 8; ++i) r.limb[i] = 0;
    return r;
  }
  static Fp one() {
    Fp r;
#pragma unroll
    for (int i = 0; i < 8; ++i) r.limb[i] = ONE[i];
    return r;
  }
  bool is_zero() const thread {
    uint any = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) any |= limb[i];
    return any == 0;
  }
};

static inline Fp reduced(Fp r) {
  Fp s;
  long borrow = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    borrow += long(r.limb[i]) - MODULUS[i];
    s.limb[i] = uint(borrow);
    borrow >>= 32;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) s.limb[i] = borrow < 0 ? r.limb[i] : s.limb[i];
  return s;
}

static inline Fp operator+(Fp a, Fp b) {
  Fp r;
  ulong carry = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    carry += ulong(a.limb[i]) + b.limb[i];
    r.limb[i] = uint(carry);
    carry >>= 32;
  }
  return reduced(r);
}

static inline Fp operator-(Fp a, Fp b) {
  Fp r;
  long borrow = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    borrow += long(a.limb[i]) - b.limb[i];
    r.limb[i] = uint(borrow);
    borrow >>= 32;
  }
  const uint mask = uint(borrow);
  ulong carry = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    carry += ulong(r.limb[i]) + (MODULUS[i] & mask);
    r.limb[i] = uint(carry);
    carry >>= 32;
  }
  return r;
}

// Computes a * b / 2^256 with Montgomery multiplication (CIOS).
static inline Fp operator*(Fp a, Fp b) {
  uint t[10];
#pragma unroll
  for (int i = 0; i < 10; ++i) t[i] = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    ulong carry = 0;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      carry += ulong(a.limb[j]) * b.limb[i] + t[j];
      t[j] = uint(carry);
      carry >>= 32;
    }
    carry += t[8];
    t[8] = uint(carry);
    t[9] = uint(carry >> 32);
    const uint m = t[0] * INVERSE;
    carry = (ulong(m) * MODULUS[0] + t[0]) >> 32;
#pragma unroll
    for (int j = 1; j < 8; ++j) {
      carry += ulong(m) * MODULUS[j] + t[j];
      t[j - 1] = uint(carry);
      carry >>= 32;
    }
    carry += t[8];
    t[7] = uint(carry);
    t[8] = t[9] + uint(carry >> 32);
  }
  Fp r;
#pragma unroll
  for (int i = 0; i < 8; ++i) r.limb[i] = t[i];
  return reduced(r);
}

struct Fp2 {
  Fp real, imaginary;
  static Fp2 zero() { return Fp2{Fp::zero(), Fp::zero()}; }
  static Fp2 one() { return Fp2{Fp::one(), Fp::zero()}; }
  bool is_zero() const thread { return real.is_zero() && imaginary.is_zero(); }
};
static inline Fp2 operator+(Fp2 a, Fp2 b) { return Fp2{a.real + b.real, a.imaginary + b.imaginary}; }
static inline Fp2 operator-(Fp2 a, Fp2 b) { return Fp2{a.real - b.real, a.imaginary - b.imaginary}; }
static inline Fp2 operator*(Fp2 a, Fp2 b) {  // Karatsuba multiplication
  const Fp first = a.real * b.real, second = a.imaginary * b.imaginary;
  return Fp2{first - second, (a.real + a.imaginary) * (b.real + b.imaginary) - first - second};
}

template <typename F>
struct Affine {
  F x, y;  // (0, 0) is the point at infinity
};

template <typename F>
struct Point {
  F x, y, z;  // z = 0 is the point at infinity
  static Point infinity() { return Point{F::one(), F::one(), F::zero()}; }
};

// The doubling formula dbl-2009-l for curves with a = 0.
template <typename F>
static inline Point<F> doubled(Point<F> p) {
  const F a = p.x * p.x, b = p.y * p.y, c = b * b;
  F d = (p.x + b) * (p.x + b) - a - c;
  d = d + d;
  const F e = a + a + a, f = e * e;
  Point<F> r;
  r.x = f - d - d;
  F c8 = c + c;
  c8 = c8 + c8;
  c8 = c8 + c8;
  r.y = e * (d - r.x) - c8;
  r.z = p.y * p.z;
  r.z = r.z + r.z;
  return r;
}

// The addition formula add-2007-bl, extended to handle the special cases that it excludes.
template <typename F>
static inline Point<F> added(Point<F> p, Point<F> q) {
  if (p.z.is_zero()) return q;
  if (q.z.is_zero()) return p;
  const F z1z1 = p.z * p.z, z2z2 = q.z * q.z;
  const F u1 = p.x * z2z2, u2 = q.x * z1z1;
  const F s1 = p.y * q.z * z2z2, s2 = q.y * p.z * z1z1;
  const F h = u2 - u1;
  F r = s2 - s1;
  if (h.is_zero()) {
    if (r.is_zero()) return doubled(p);
    return Point<F>::infinity();
  }
  F i = h + h;
  i = i * i;
  const F j = h * i;
  r = r + r;
  const F v = u1 * i;
  Point<F> sum;
  sum.x = r * r - j - v - v;
  F t = s1 * j;
  sum.y = r * (v - sum.x) - t - t;
  sum.z = ((p.z + q.z) * (p.z + q.z) - z1z1 - z2z2) * h;
  return sum;
}

template <typename F>
static inline Point<F> added(Point<F> p, Affine<F> q) {
  if (q.x.is_zero() && q.y.is_zero()) return p;
  return added(p, Point<F>{q.x, q.y, F::one()});
}

template <typename F>
static inline Point<F> scaled(Affine<F> p, const thread uint* scalar, uint bits) {
  Point<F> r = Point<F>::infinity();
  for (int i = int(bits) - 1; i >= 0; --i) {
    r = doubled(r);
    if (scalar[i / 32] >> (i % 32) & 1) r = added(r, p);
  }
  return r;
}

// Sums one bucket per thread: the points whose scalars have the value `bucket` + 1 in this window of bits.
template <typename F>
kernel void fill_buckets(device const Affine<F>* points [[buffer(0)]], device const uint* scalars [[buffer(1)]],
                         device Point<F>* buckets [[buffer(2)]], constant uint& count [[buffer(3)]],
                         constant uint& bits [[buffer(4)]], uint2 at [[thread_position_in_grid]],
                         uint2 size [[threads_per_grid]]) {
  const uint bucket = at.x, window = at.y, first = window * bits;
  Point<F> sum = Point<F>::infinity();
  for (uint i = 0; i < count; ++i) {
    uint value = 0;
    for (uint b = 0; b < bits && first + b < 256; ++b)
      value |= (scalars[i * 8 + (first + b) / 32] >> ((first + b) % 32) & 1) << b;
    if (value == bucket + 1) sum = added(sum, points[i]);
  }
  buckets[window * size.x + bucket] = sum;
}

// Sums i * bucket[i] within each window, then combines the windows.
template <typename F>
kernel void join_buckets(device const Point<F>* buckets [[buffer(0)]], device Point<F>* result [[buffer(1)]],
                         constant uint& windows [[buffer(2)]], constant uint& bits [[buffer(3)]]) {
  const uint each = (1u << bits) - 1;
  Point<F> total = Point<F>::infinity();
  for (int w = int(windows) - 1; w >= 0; --w) {
    for (uint b = 0; b < bits; ++b) total = doubled(total);
    Point<F> running = Point<F>::infinity(), sum = Point<F>::infinity();
    for (int b = int(each) - 1; b >= 0; --b) {
      running = added(running, buckets[w * each + b]);
      sum = added(sum, running);
    }
    total = added(total, sum);
  }
  *result = total;
}

template <typename F>
kernel void multiply(device const Affine<F>* points [[buffer(0)]], device const uint* scalars [[buffer(1)]],
                     device Point<F>* out [[buffer(2)]], constant uint& bits [[buffer(3)]],
                     uint i [[thread_position_in_grid]]) {
  uint scalar[8];
  for (int k = 0; k < 8; ++k) scalar[k] = scalars[i * 8 + k];
  out[i] = scaled(Affine<F>(points[i]), scalar, bits);
}

#define FOR_GROUP(F, NAME)                                                                            \
  template [[host_name("fill_buckets_" NAME)]] kernel decltype(fill_buckets<F>) fill_buckets<F>;      \
  template [[host_name("join_buckets_" NAME)]] kernel decltype(join_buckets<F>) join_buckets<F>;      \
  template [[host_name("multiply_" NAME)]] kernel decltype(multiply<F>) multiply<F>;
FOR_GROUP(Fp, "g1")
FOR_GROUP(Fp2, "g2")
