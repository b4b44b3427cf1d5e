// Random fills. There is one kernel template and, for each distribution, a functor that converts a Philox block to four
// values.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "random/chunk.h"

// a is `from`, b is `to` - `from`, and c is the largest value below `to`, which rounded samples must not exceed.
struct Uniform {
  static float one(uint bits, constant RandomParams& p) { return min(fma(uniform_unit(bits), p.b, p.a), p.c); }
  static Quad<float> draw(PhiloxBlock r, constant RandomParams& p) {
    return {one(r.x, p), one(r.y, p), one(r.z, p), one(r.w, p)};
  }
};

// a is the mean, and b is the standard deviation.
struct Normal {
  static Quad<float> draw(PhiloxBlock r, constant RandomParams& p) {
    const NormalPair m = box_muller(r.x, r.y), n = box_muller(r.z, r.w);
    return {fma(m.first, p.b, p.a), fma(m.second, p.b, p.a), fma(n.first, p.b, p.a), fma(n.second, p.b, p.a)};
  }
};

struct LogNormal {
  static Quad<float> draw(PhiloxBlock r, constant RandomParams& p) {
    const Quad<float> v = Normal::draw(r, p);
    return {precise::exp(v.x), precise::exp(v.y), precise::exp(v.z), precise::exp(v.w)};
  }
};

// a is 1 / lambda. Samples are never 0, because callers divide by them (the exponential trick of multinomial).
struct Exponential {
  static float one(uint bits, constant RandomParams& p) {
    return max(-random_log(uniform_positive(bits)), 0x1p-24f) * p.a;
  }
  static Quad<float> draw(PhiloxBlock r, constant RandomParams& p) {
    return {one(r.x, p), one(r.y, p), one(r.z, p), one(r.w, p)};
  }
};

// a is the median, and b is sigma. Computes tan(pi (u - 1/2)) as -cos(pi u) / sin(pi u), where u is the midpoint of one
// of 2^31 intervals.
struct Cauchy {
  static float one(uint bits, constant RandomParams& p) {
    const SinCos half_turn = random_sincos((bits >> 1) | 1u);
    return fma(-half_turn.cos / half_turn.sin, p.b, p.a);
  }
  static Quad<float> draw(PhiloxBlock r, constant RandomParams& p) {
    return {one(r.x, p), one(r.y, p), one(r.z, p), one(r.w, p)};
  }
};

// a is 1 / log(1 - p). A sample is the number of trials up to and including the first success.
struct Geometric {
  static float one(uint bits, constant RandomParams& p) {
    return max(ceil(random_log(uniform_positive(bits)) * p.a), 1.0f);
  }
  static Quad<float> draw(PhiloxBlock r, constant RandomParams& p) {
    return {one(r.x, p), one(r.y, p), one(r.z, p), one(r.w, p)};
  }
};

struct Bernoulli {
  static Quad<int> draw(PhiloxBlock r, constant RandomParams& p) {
    return {r.x <= p.bound, r.y <= p.bound, r.z <= p.bound, r.w <= p.bound};
  }
};

// Integers from a range of at most 2^32 values. Each one uses one random word.
struct Integer {
  static int one(uint bits, constant RandomParams& p) { return int(uint(p.base) + uniform_below(bits, uint(p.range))); }
  static Quad<int> draw(PhiloxBlock r, constant RandomParams& p) {
    return {one(r.x, p), one(r.y, p), one(r.z, p), one(r.w, p)};
  }
};

template <typename T, typename Distribution>
kernel void random_fill(device T* out [[buffer(0)]], constant RandomParams& p [[buffer(1)]],
                        uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                        uint tpt [[threads_per_threadgroup]]) {
  const RandomChunk chunk = random_chunk(p, group);
  device T* o = out + chunk.start;
  if (chunk.left >= kRandomChunk) {
    MPSX_VECTORIZE
    for (uint j = tid; j < kRandomBlocks; j += tpt) store(o, j, Distribution::draw(philox(p.seed, chunk.block + j), p));
  } else {
    const uint left = uint(chunk.left), blocks = min(left, uint(kRandomBlocks));
    for (uint j = tid; j < blocks; j += tpt) store(o, j, Distribution::draw(philox(p.seed, chunk.block + j), p), left);
  }
}

// Integers of up to 64 bits. Each one uses two random words, so a chunk has half as many elements.
template <typename T>
kernel void random_wide(device T* out [[buffer(0)]], constant RandomParams& p [[buffer(1)]],
                        uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                        uint tpt [[threads_per_threadgroup]]) {
  const ulong start = ulong(group) * (kRandomChunk / 2), block = p.offset + ulong(group) * kRandomBlocks;
  const ulong left = p.numel - start;
  const uint blocks = uint(min(left, ulong(kRandomBlocks)));
  device T* o = out + start;
  for (uint j = tid; j < blocks; j += tpt) {
    const PhiloxBlock r = philox(p.seed, block + j);
    const ulong first = r.x | ulong(r.y) << 32, second = r.z | ulong(r.w) << 32;
    o[j] = T(p.base + long(p.range == 0 ? first : uniform_below(first, ulong(p.range))));
    if (j + kRandomBlocks < left)
      o[j + kRandomBlocks] = T(p.base + long(p.range == 0 ? second : uniform_below(second, ulong(p.range))));
  }
}

// Returns whether a random word is below a probability. Limits the product, so that its conversion to uint is defined.
// A probability of 1 always yields true.
inline int happens(uint bits, float probability) {
  return int(bits < uint(min(probability * 4294967296.0f, 4294967040.0f))) | int(probability >= 1.0f);
}

template <typename T>
kernel void bernoulli_tensor(device T* out [[buffer(0)]], device const float* probability [[buffer(1)]],
                             constant RandomParams& p [[buffer(2)]], uint group [[threadgroup_position_in_grid]],
                             uint tid [[thread_index_in_threadgroup]], uint tpt [[threads_per_threadgroup]]) {
  const RandomChunk chunk = random_chunk(p, group);
  device T* o = out + chunk.start;
  device const float* q = probability + chunk.start;
  if (chunk.left >= kRandomChunk) {
    MPSX_VECTORIZE
    for (uint j = tid; j < kRandomBlocks; j += tpt) {
      const PhiloxBlock r = philox(p.seed, chunk.block + j);
      store(o, j,
            Quad<int>{happens(r.x, q[j]), happens(r.y, q[j + kRandomBlocks]), happens(r.z, q[j + 2 * kRandomBlocks]),
                      happens(r.w, q[j + 3 * kRandomBlocks])});
    }
  } else {
    const uint left = uint(chunk.left), blocks = min(left, uint(kRandomBlocks));
    for (uint j = tid; j < blocks; j += tpt) {
      const PhiloxBlock r = philox(p.seed, chunk.block + j);
      const uint last = left - 1;  // clamp out-of-range reads; their results are not stored
      store(o, j,
            Quad<int>{happens(r.x, q[j]), happens(r.y, q[min(j + kRandomBlocks, last)]),
                      happens(r.z, q[min(j + 2 * kRandomBlocks, last)]),
                      happens(r.w, q[min(j + 3 * kRandomBlocks, last)])},
            left);
    }
  }
}

#define MPSX_FILL(T, tag, stem, distribution) MPSX_KERNEL(stem "_" #tag, random_fill<T, distribution>)
MPSX_FOR_FLOAT(MPSX_FILL, "random_uniform", Uniform)
MPSX_FOR_FLOAT(MPSX_FILL, "random_normal", Normal)
MPSX_FOR_FLOAT(MPSX_FILL, "random_log_normal", LogNormal)
MPSX_FOR_FLOAT(MPSX_FILL, "random_exponential", Exponential)
MPSX_FOR_FLOAT(MPSX_FILL, "random_cauchy", Cauchy)
MPSX_FOR_REAL(MPSX_FILL, "random_geometric", Geometric)
MPSX_FOR_ALL(MPSX_FILL, "random_bernoulli", Bernoulli)
MPSX_FOR_ALL(MPSX_FILL, "random_integer", Integer)

#define MPSX_WIDE(T, tag, ...) MPSX_KERNEL("random_wide_" #tag, random_wide<T>)
MPSX_WIDE(float, f32)  // half cannot represent the whole range
MPSX_WIDE(bfloat, bf16)
MPSX_WIDE(long, i64)
MPSX_WIDE(int, i32)

#define MPSX_BERNOULLI_TENSOR(T, tag, ...) MPSX_KERNEL("bernoulli_tensor_" #tag, bernoulli_tensor<T>)
MPSX_FOR_ALL(MPSX_BERNOULLI_TENSOR)
