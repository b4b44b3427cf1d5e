// GEMV with 8-bit and 4-bit weights. A row group computes kGemvRows output elements, which share each vector of x.
#include "lib/collective.h"
#include "lib/instantiate.h"
#include "lib/vec.h"
#include "matmul/epilogue.h"

// Returns the two integers below 1024 in the halves of `bits`, minus an offset. The integers become the mantissas of
// 1024, because GPUs convert integers at a fraction of the rate of other instructions.
METAL_FUNC float2 halves_minus(uint bits, half offset) {
  return float2(as_type<half2>(bits | 0x64006400u) - half2(1024.0h + offset));
}

// Multiplies a block of 16 bytes of weights by the activations `x`.
struct Int8Block {
  enum : uint { kSize = 16 };
  static METAL_FUNC float dot(uint4 raw, thread const float* x) {
    const uint4 unsigned_bytes = raw ^ 0x80808080u;  // plus 128
    float sum = 0.0f;
    MPSX_UNROLL
    for (uint i = 0; i < kSize / 2; ++i) {
      const uint first = i / 2 * 4 + i % 2;
      const float2 w = halves_minus((unsigned_bytes[i / 2] >> (i % 2 * 8)) & 0x00ff00ffu, 128.0h);
      sum = fma(x[first + 2], w.y, fma(x[first], w.x, sum));
    }
    return sum;
  }
};
struct Int4Block {
  enum : uint { kSize = kInt4Block, kHalf = kSize / 2 };
  // The high half of a byte is read as 16 times the weight, which saves a shift, so the activations of the block's
  // second half must be divided by 16.
  static METAL_FUNC float dot(uint4 raw, thread const float* x) {
    float sum = 0.0f;
    MPSX_UNROLL
    for (uint i = 0; i < kHalf / 2; ++i) {
      const uint bytes = raw[i / 2] >> (i % 2 * 8), first = i / 2 * 4 + i % 2;
      const float2 low = halves_minus(bytes & 0x000f000fu, 8.0h), high = halves_minus(bytes & 0x00f000f0u, 128.0h);
      sum = fma(x[first + 2], low.y, fma(x[first], low.x, sum));
      sum = fma(x[first + kHalf + 2], high.y, fma(x[first + kHalf], high.x, sum));
    }
    return sum;
  }
};

// Loads the activations of a block and converts them to float.
template <uint SIZE, typename T>
METAL_FUNC void load_activations(thread float* values, device const T* x) {
  const Vec<T, SIZE> raw = load_vec<SIZE>(x);
  MPSX_UNROLL
  for (uint i = 0; i < SIZE; ++i) values[i] = float(raw.v[i]);
}

// Rows of weights, from `first` on. Repeats the last row beyond the end.
struct WeightRows {
  device const char* data;
  long row_bytes;
  uint first, rows;
  METAL_FUNC uint row(uint r) const { return min(first + r, rows - 1); }
  METAL_FUNC device const char* bytes(uint r) const { return data + long(row(r)) * row_bytes; }
};
METAL_FUNC void load_block(thread uint4* raw, WeightRows weights, uint block) {
  MPSX_UNROLL
  for (uint r = 0; r < kGemvRows; ++r) raw[r] = load_words<16>(weights.bytes(r) + block * 16);
}

// This thread's parts of the dot products of x and kGemvRows rows.
typedef vec<float, kGemvRows> RowSums;
template <typename T>
METAL_FUNC void int8_dots(thread RowSums& sum, device const T* x, WeightRows weights, uint blocks, RowGroup group) {
  for (uint block = group.index; block < blocks; block += group.count) {
    uint4 raw[kGemvRows];
    float values[Int8Block::kSize];
    load_block(raw, weights, block);
    load_activations<Int8Block::kSize>(values, x + block * Int8Block::kSize);
    MPSX_UNROLL
    for (uint r = 0; r < kGemvRows; ++r) sum[r] += Int8Block::dot(raw[r], values);
  }
}
template <typename T>
METAL_FUNC void int4_dots(thread RowSums& sum, device const T* x, WeightRows weights, device const T* scales,
                          constant Int4Params& p, RowGroup group) {
  for (uint block = group.index; block < p.K / kInt4Block; block += group.count) {
    uint4 raw[kGemvRows];
    float values[kInt4Block], total = 0.0f;
    load_block(raw, weights, block);
    load_activations<kInt4Block>(values, x + block * kInt4Block);
    MPSX_UNROLL
    for (uint i = 0; i < kInt4Block; ++i) total += values[i];
    MPSX_UNROLL
    for (uint i = Int4Block::kHalf; i < kInt4Block; ++i) values[i] *= 0.0625f;
    device const T* s = scales + 2 * (ulong(block * kInt4Block / p.group) * p.N);
    MPSX_UNROLL
    for (uint r = 0; r < kGemvRows; ++r) {
      const uint column = weights.row(r);
      sum[r] = fma(float(s[2 * column]), Int4Block::dot(raw[r], values), sum[r]);
      sum[r] = fma(float(s[2 * column + 1]), total, sum[r]);
    }
  }
}

// `a` and the rows of `b` are contiguous and aligned, and K is a multiple of 16.
template <typename T>
kernel void gemv_int8(device T* out [[buffer(0)]], device const T* a [[buffer(1)]], device const char* b [[buffer(2)]],
                      device const T* c [[buffer(3)]], device const T* scale [[buffer(4)]],
                      constant MatmulParams& p [[buffer(5)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup RowSums scratch[kScratch];
  const RowGroup group = row_group((p.N + kGemvRows - 1) / kGemvRows, p.row_threads, g);
  const WeightRows weights = {b, p.b.column, group.row * kGemvRows, p.N};
  const uint row = g.group.y;
  if (weights.first >= p.N) return;
  RowSums sum = RowSums(0.0f);
  int8_dots(sum, a + long(row) * p.a.row, weights, p.K / Int8Block::kSize, group);
  const MatmulEpilogue<T> epilogue = matmul_epilogue(out, c, scale, p, 0);
  sum = rg_reduce<CombineSum>(sum, scratch, group, g);
  MPSX_UNROLL
  for (uint r = 0; r < kGemvRows; ++r)
    if (group.index == 0 && weights.first + r < p.N) epilogue.store(row, weights.first + r, sum[r]);
}

// Rows of `a` are contiguous. `a` and the weights are aligned.
template <typename T>
kernel void gemv_int4(device T* out [[buffer(0)]], device const T* a [[buffer(1)]], device const char* b [[buffer(2)]],
                      device const T* scales [[buffer(3)]], constant Int4Params& p [[buffer(4)]],
                      MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup RowSums scratch[kScratch];
  const RowGroup group = row_group((p.N + kGemvRows - 1) / kGemvRows, p.row_threads, g);
  const WeightRows weights = {b, long(p.K / 2), group.row * kGemvRows, p.N};
  if (weights.first >= p.N) return;
  RowSums sum = RowSums(0.0f);
  int4_dots(sum, a + long(g.group.y) * p.a_row, weights, scales, p, group);
  sum = rg_reduce<CombineSum>(sum, scratch, group, g);
  MPSX_UNROLL
  for (uint r = 0; r < kGemvRows; ++r)
    if (group.index == 0 && weights.first + r < p.N) out[ulong(g.group.y) * p.N + weights.first + r] = T(sum[r]);
}

#define MPSX_GEMV_INT(T, TAG, ...)                     \
  MPSX_KERNEL("gemv_int8_vectors_" #TAG, gemv_int8<T>) \
  MPSX_KERNEL("gemv_int4_" #TAG, gemv_int4<T>)
MPSX_FOR_FLOAT(MPSX_GEMV_INT)
