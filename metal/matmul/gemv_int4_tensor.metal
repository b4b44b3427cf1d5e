// The tensor tier of gemv_int4. Matrix units multiply up to eight rows of activations at a time. Without them,
// dequantizing and multiplying weights takes longer than loading them from a GPU's cache.
#include "lib/instantiate.h"
#include "lib/multiply_vectors.h"
#include "lib/threadgroup.h"
#include "lib/vec.h"
#include "matmul/params.h"

// A column of the output is a row of the weight.
enum : uint { kInt4Tiles = kInt4GemvColumns / kFragmentRows };
static_assert(kInt4GemvRows == kVectors, "rows of activations are vectors");
typedef MPSX_VECTOR_PRODUCTS Products;

// Converts weights by writing their four bits into the mantissa of a power of two. Each weight is then kOffset too
// large: kOffset is the power of two plus 8.
template <typename T>
struct Int4Mantissa {};
template <>
struct Int4Mantissa<half> {  // 64 to 79
  enum : uint { kShift = 4, kExponent = 0x54005400u, kOffset = 72 };
};
template <>
struct Int4Mantissa<bfloat> {  // 128 to 143
  enum : uint { kShift = 0, kExponent = 0x43004300u, kOffset = 136 };
};
// Returns weights 0, 2, 1, and 3 of a word, or if HIGH, the four that are half a block further.
template <typename T, bool HIGH>
METAL_FUNC vec<T, 4> int4_weights(uint word) {
  typedef Int4Mantissa<T> M;
  enum : uint { kFirst = HIGH ? 4 : 0, kSecond = kFirst + 8, kMask = 0x000f000fu << M::kShift };
  const uint even = M::kShift > kFirst ? word << (M::kShift - kFirst) : word >> (kFirst - M::kShift);
  const uint odd = word >> (kSecond - M::kShift);
  return vec<T, 4>(as_type<vec<T, 2>>(Products::masked_or(even, kMask, M::kExponent)),
                   as_type<vec<T, 2>>(Products::masked_or(odd, kMask, M::kExponent)));
}
// Returns activations 0, 2, 1, and 3 of two words.
template <typename T>
METAL_FUNC vec<T, 4> int4_activations(uint first, uint second) {
  const vec<T, 2> a = as_type<vec<T, 2>>(first), b = as_type<vec<T, 2>>(second);
  return vec<T, 4>(a.x, b.x, a.y, b.y);
}

// Where a lane's operands start. It multiplies its vector with four rows of weights, each in a different block of eight
// rows. The four lanes with the same rows hold adjacent words.
template <typename T>
struct Int4Lane {
  enum : uint { kRows = 2 * kInt4Tiles };
  device const uchar* weights[kRows];
  device const T* scales;
  device const T* x;  // null if there is no such vector
  uint scale_offsets[kRows], group_shift, N;
};

// The operands that a lane multiplies at a time: WORDS words of each row, with eight weights per word.
template <typename T, uint WORDS>
struct Int4Run {
  enum : uint { kRows = Int4Lane<T>::kRows, kWeights = WORDS * kInt4Block, kPairs = 2 * WORDS };
  uint4 words[kRows];
  uint low[kPairs], high[kPairs];  // pairs of activations
  vec<T, 2> scale[kRows];

  METAL_FUNC void load(thread const Int4Lane<T>& lane, uint run) {
    device const T* s = lane.scales + 2 * (ulong(run * kWeights >> lane.group_shift) * lane.N);
    MPSX_UNROLL
    for (uint i = 0; i < kRows; ++i) {
      words[i] = load_words<4 * WORDS>(lane.weights[i] + run * (kWeights / 2));
      scale[i] = *(device const vec<T, 2>*)(s + lane.scale_offsets[i]);
    }
    load_activations(low, lane.x, run * kWeights);
    load_activations(high, lane.x, run * kWeights + kInt4Block / 2);
  }
  METAL_FUNC void load_activations(thread uint (&to)[kPairs], device const T* x, uint first) {
    MPSX_UNROLL
    for (uint i = 0; i < kPairs; ++i) to[i] = 0;
    if (x == nullptr) return;
    enum : uint { kEach = WORDS == 1 ? 2 : 4 };
    MPSX_UNROLL
    for (uint i = 0; i < kPairs; i += kEach) {
      const uint4 raw = load_words<4 * kEach>(x + (first + 2 * i));
      MPSX_UNROLL
      for (uint j = 0; j < kEach; ++j) to[i + j] = raw[j];
    }
  }

  typedef float Sums[Products::kSums];
  template <bool HIGH>
  METAL_FUNC void multiply_word(thread Sums (&sums)[kInt4Tiles], thread Sums& totals, uint w) const {
    const vec<T, 4> x =
        HIGH ? int4_activations<T>(high[2 * w], high[2 * w + 1]) : int4_activations<T>(low[2 * w], low[2 * w + 1]);
    MPSX_UNROLL
    for (uint t = 0; t < kInt4Tiles; ++t) {
      const vec<T, 4> rows[2] = {int4_weights<T, HIGH>(words[2 * t][w]), int4_weights<T, HIGH>(words[2 * t + 1][w])};
      Products::multiply(sums[t], rows, x);
    }
    const vec<T, 4> one = vec<T, 4>(T(1.0f)), ones[2] = {one, one};
    Products::multiply(totals, ones, x);
  }
  // Adds the products, scaled, to the results.
  METAL_FUNC void multiply(thread Sums (&results)[kInt4Tiles]) const {
    Sums sums[kInt4Tiles], totals;
    MPSX_UNROLL
    for (uint i = 0; i < Products::kSums; ++i) {
      totals[i] = 0.0f;
      MPSX_UNROLL
      for (uint t = 0; t < kInt4Tiles; ++t) sums[t][i] = 0.0f;
    }
    MPSX_UNROLL
    for (uint w = 0; w < WORDS; ++w) {
      multiply_word<false>(sums, totals, w);
      multiply_word<true>(sums, totals, w);
    }
    MPSX_UNROLL
    for (uint row = 0; row < kRows; ++row) {
      const float2 s = float2(scale[row]);
      const float zero = s.y - float(Int4Mantissa<T>::kOffset) * s.x;
      MPSX_UNROLL
      for (uint j = 0; j < Products::kSums / 2; ++j) {  // half of a tile's sums belong to the same row
        const uint t = row / 2, i = row % 2 * (Products::kSums / 2) + j;
        results[t][i] = fma(s.x, sums[t][i], fma(zero, totals[i], results[t][i]));
      }
    }
  }
};

// Rows of `a` are contiguous. `a`, the weights, and the scales are aligned. The number of weights in a quantization
// group is a power of two. A group has at least WORDS blocks.
template <typename T, uint WORDS>
[[max_total_threads_per_threadgroup(kInt4GemvSimdGroups * 32)]]
kernel void gemv_int4_tensor(device T* out [[buffer(0)]], device const T* a [[buffer(1)]],
                             device const uchar* weight [[buffer(2)]], device const T* scales [[buffer(3)]],
                             constant Int4Params& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  typedef Int4Run<T, WORDS> Run;
  enum : uint { kSums = Products::kSums, kOutputs = kVectors * kInt4GemvColumns };
  threadgroup float partials[kInt4GemvSimdGroups * kOutputs];
  const uint simdgroup = g.index / g.width, simdgroups = g.count / g.width;
  const uint first_column = g.group.x * kInt4GemvColumns, first_vector = g.group.y * kVectors;
  const uint vector = first_vector + fragment_row(g.lane), word = fragment_column(g.lane) / 4 * WORDS;
  const uint column = first_column + fragment_row(g.lane);
  Int4Lane<T> lane;
  lane.scales = scales + 2 * column;
  lane.x = vector < p.M ? a + long(vector) * p.a_row + (word / 4 * kInt4Block + word % 4 * 4) : nullptr;
  lane.group_shift = ctz(p.group);
  lane.N = p.N;
  MPSX_UNROLL
  for (uint i = 0; i < Run::kRows; ++i) {
    // Load the first block of eight rows again instead of one past the end.
    const uint offset = first_column + i * 8 < p.N ? i * 8 : 0;
    lane.weights[i] = weight + (ulong(column + offset) * (p.K / 2) + word * 4);
    lane.scale_offsets[i] = 2 * offset;
  }
  typename Run::Sums results[kInt4Tiles];
  MPSX_UNROLL
  for (uint i = 0; i < kInt4Tiles * kSums; ++i) results[i / kSums][i % kSums] = 0.0f;

  // Load two runs before multiplying one. SIMD groups load adjacent runs at the same time. The second load must not be
  // conditional: with a branch, 4096 columns take 4.7 us on an H200 instead of 4.0.
  const uint runs = p.K / Run::kWeights;
  for (uint run = simdgroup; run < runs; run += 2 * simdgroups) {
    const bool two = run + simdgroups < runs;
    Run first, second;
    first.load(lane, run);
    second.load(lane, two ? run + simdgroups : run);
    first.multiply(results);
    if (two) second.multiply(results);
  }

  MPSX_UNROLL
  for (uint i = 0; i < kInt4Tiles * kSums; ++i) {
    const uint v = Products::vector(g.lane, i % kSums);
    const uint c = i / kSums * kFragmentRows + Products::row(g.lane, i % kSums);
    if (v < kVectors) partials[simdgroup * kOutputs + v * kInt4GemvColumns + c] = results[i / kSums][i % kSums];
  }
  tg_barrier();
  for (uint i = g.index; i < kOutputs; i += g.count) {
    const uint v = first_vector + i / kInt4GemvColumns, c = first_column + i % kInt4GemvColumns;
    if (v >= p.M || c >= p.N) continue;
    float sum = 0.0f;
    for (uint part = 0; part < simdgroups; ++part) sum += partials[part * kOutputs + i];
    out[ulong(v) * p.N + c] = T(sum);
  }
}

#define MPSX_GEMV_INT4(T, TAG)                                    \
  MPSX_KERNEL("gemv_int4_tensor_1_" #TAG, gemv_int4_tensor<T, 1>) \
  MPSX_KERNEL("gemv_int4_tensor_2_" #TAG, gemv_int4_tensor<T, 2>) \
  MPSX_KERNEL("gemv_int4_tensor_4_" #TAG, gemv_int4_tensor<T, 4>)
MPSX_GEMV_INT4(half, f16)
MPSX_GEMV_INT4(bfloat, bf16)
