// GEMM of one BM x BN tile. Loader classes provide the operands A (M x K) and B (K x N).
//
// A loader must have two functions. `Cursor at(uint mn)` is called once per row of A or column of B. `uint4
// load(Cursor, uint k)` returns a 16-byte vector, which extends along K if `k_contiguous` and along M or N otherwise.
// Out-of-range elements are zero.
#pragma once

#include "lib/collective.h"
#include "lib/gemm_params.h"

struct SimdgroupTier {};

// A BM x BN tile of T, computed by WARPS_M x WARPS_N SIMD groups. Each SIMD group computes an SM x SN subtile.
// MAX_THREADS limits register use so that this many threads, from several threadgroups, can be resident at the same
// time.
// Tier selects how a SIMD group multiplies (see GemmAccumulators).
template <typename T, uint M, uint N, uint WARPS_M, uint WARPS_N, uint MAX_THREADS, typename Tier = SimdgroupTier>
struct GemmShape {
  typedef T type;
  typedef Tier tier;
  enum : uint {
    BM = M,
    BN = N,
    BK = kTileKBytes / sizeof(T),
    WN = WARPS_N,
    SM = M / WARPS_M,
    SN = N / WARPS_N,
    threads = kTile64Threads / 4 * WARPS_M * WARPS_N,
    max_threads = MAX_THREADS,
    vec = 16 / sizeof(T),
    stride = BK + 8,  // padded, so that the eight rows of a fragment are in different banks of threadgroup memory
    memory = (M + N) * stride / vec,  // in uint4
  };
};
template <typename T>
using Tile64 = GemmShape<T, kTile64, kTile64, 2, 2, (sizeof(T) == 4 ? 3 : 1) * kTile64Threads>;
template <typename T>
using Tile128 = GemmShape<T, kTile128, kTile128, 2, 4, 2 * kTile128Threads>;

// The position (row, column) of a tile's first element in the output.
struct TileOffset {
  uint m, n;
};

inline uint bits_of(float x) { return as_type<uint>(x); }
inline uint bits_of(half x) { return as_type<ushort>(x); }
inline uint bits_of(bfloat x) { return as_type<ushort>(x); }

// Loads a strided matrix of T and converts it to the tile's element type S.
template <typename T, typename S = T>
struct MatrixLoader {
  struct Cursor {
    device const T* data;
    uint remaining;  // number of rows or columns from this position to the end
  };
  device const T* data;
  long mn_stride, k_stride;
  uint mn_size, k_size;
  bool vectorized;    // whether loads along the contiguous dimension are 16-byte aligned
  bool k_contiguous;  // whether elements are contiguous along K, or along neither dimension

  METAL_FUNC Cursor at(uint mn) const { return {data + long(mn) * mn_stride, mn < mn_size ? mn_size - mn : 0}; }
  METAL_FUNC uint4 load(Cursor cursor, uint k) const {
    enum : uint { kVec = 16 / sizeof(S) };
    uint4 r = uint4(0);
    if (cursor.remaining == 0 || k >= k_size) return r;
    device const T* from = cursor.data + long(k) * k_stride;
    const uint count = k_contiguous ? k_size - k : cursor.remaining;
    if (vectorized && count >= kVec) return *(device const uint4*)from;
    const long step = k_contiguous ? k_stride : mn_stride;
#pragma unroll
    for (uint i = 0; i < kVec; ++i) {
      const S element = S(from[long(min(i, count - 1)) * step]);
      r[i * sizeof(S) / 4] |= (i < count ? bits_of(element) : 0) << i * sizeof(S) % 4 * 8;
    }
    return r;
  }
};
template <typename S = void, typename T>
METAL_FUNC auto matrix_loader(device const T* data, long mn_stride, long k_stride, uint mn_size, uint k_size,
                              bool vectorized) {
  typedef conditional_t<is_same_v<S, void>, T, S> staged;
  return MatrixLoader<T, staged>{
      data, mn_stride, k_stride, mn_size, k_size, vectorized && is_same_v<T, staged>, k_stride == 1 || mn_stride != 1};
}

// Copies an MN x BK block of an operand from device memory through registers to threadgroup memory, where it is
// contiguous along K. Each thread copies kVectors vectors.
template <typename T, uint MN, uint BK, uint THREADS>
struct BlockLoader {
  enum : uint {
    kVec = 16 / sizeof(T),
    kVectors = MN * BK / kVec / THREADS,
    kPerWord = 4 / sizeof(T),  // elements per 32-bit word, the unit of the transpose if K is not contiguous
    kVectorsPerRow = BK / kVec,
    kWordsPerRow = BK / kPerWord,
  };
  uint4 staged[kVectors];

  // Returns the position (mn, k) in the block of this thread's vector i.
  METAL_FUNC static uint2 position(bool k_contiguous, uint i, uint index) {
    const uint vector = index + i * THREADS, word = index + i / kPerWord * THREADS;
    if (k_contiguous) return uint2(vector / kVectorsPerRow, vector % kVectorsPerRow * kVec);
    return uint2(word / kWordsPerRow * kVec, word % kWordsPerRow * kPerWord + i % kPerWord);
  }

  template <typename Operand>
  METAL_FUNC static void init(Operand operand, uint mn, uint index,
                              thread typename Operand::Cursor (&cursors)[kVectors]) {
#pragma unroll
    for (uint i = 0; i < kVectors; ++i) cursors[i] = operand.at(mn + position(operand.k_contiguous, i, index).x);
  }
  template <typename Operand>
  METAL_FUNC void load(Operand operand, thread const typename Operand::Cursor (&cursors)[kVectors], uint k,
                       uint index) {
#pragma unroll
    for (uint i = 0; i < kVectors; ++i)
      staged[i] = operand.load(cursors[i], k + position(operand.k_contiguous, i, index).y);
  }
  template <typename Operand>
  METAL_FUNC void load(Operand operand, uint mn, uint k, uint index) {
    typename Operand::Cursor cursors[kVectors];
    init(operand, mn, index, cursors);
    load(operand, cursors, k, index);
  }

  template <typename Operand>
  METAL_FUNC void store(Operand operand, threadgroup T* to, uint stride, uint index) const {
    if (operand.k_contiguous) {
#pragma unroll
      for (uint i = 0; i < kVectors; ++i) {
        const uint2 at = position(true, i, index);
        *(threadgroup uint4*)(to + at.x * stride + at.y) = staged[i];
      }
      return;
    }
#pragma unroll
    for (uint i = 0; i < kVectors; i += kPerWord) {
      const uint2 at = position(false, i, index);
      threadgroup T* first = to + at.x * stride + at.y;
#pragma unroll
      for (uint j = 0; j < kVec; ++j) {
        const uint x = staged[i][j / kPerWord], y = staged[i + kPerWord - 1][j / kPerWord];
        const uint both = j % 2 == 0 ? (x & 0xffffu) | y << 16 : x >> 16 | (y & 0xffff0000u);
        *(threadgroup uint*)(first + j * stride) = kPerWord == 1 ? x : both;
      }
    }
  }
};

// The SM x SN output elements of a SIMD group, in registers.
//   multiply(a, b, lane)              multiplies a BK block of both operands, stored in threadgroup memory along K
//   add_partials()                    adds the sums since the last call to the totals (float only)
//   store_rows(i, out, stride, lane)  stores rows 8 i to 8 i + 7 in threadgroup memory
template <typename Shape, typename Tier = typename Shape::tier>
struct GemmAccumulators;

// Loops over fragments must be unrolled, because registers cannot be indexed dynamically.
template <typename Shape>
struct GemmAccumulators<Shape, SimdgroupTier> {
  typedef typename Shape::type T;
  enum : uint { TM = Shape::SM / 8, TN = Shape::SN / 8 };
  // For float, accumulate in two levels to bound the error: sum over 64 elements of K at a time, then add up these
  // sums.
  enum : uint { kTwoLevels = sizeof(T) == 4 };
  simdgroup_float8x8 acc[TM][TN], partial[TM][TN];

  METAL_FUNC void clear() {
#pragma unroll
    for (uint i = 0; i < TM; ++i)
#pragma unroll
      for (uint j = 0; j < TN; ++j) acc[i][j] = partial[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  }
  METAL_FUNC void multiply(threadgroup const T* a, threadgroup const T* b, uint) {
#pragma unroll
    for (uint kk = 0; kk < Shape::BK; kk += 8) {
      simdgroup_matrix<T, 8, 8> a_frag[TM], b_frag[TN];
#pragma unroll
      for (uint i = 0; i < TM; ++i) simdgroup_load(a_frag[i], a + i * 8 * Shape::stride + kk, Shape::stride);
#pragma unroll
      for (uint j = 0; j < TN; ++j)
        simdgroup_load(b_frag[j], b + j * 8 * Shape::stride + kk, Shape::stride, ulong2(0), true);
#pragma unroll
      for (uint i = 0; i < TM; ++i)
#pragma unroll
        for (uint j = 0; j < TN; ++j) simdgroup_multiply_accumulate(partial[i][j], a_frag[i], b_frag[j], partial[i][j]);
    }
  }
  METAL_FUNC void add_partials() {
#pragma unroll
    for (uint i = 0; i < TM; ++i)
#pragma unroll
      for (uint j = 0; j < TN; ++j) {
        acc[i][j].thread_elements() += partial[i][j].thread_elements();
        partial[i][j] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
      }
  }
  METAL_FUNC void store_rows(uint i, threadgroup float* out, uint stride, uint) {
#pragma unroll
    for (uint j = 0; j < TN; ++j) simdgroup_store(kTwoLevels ? acc[i][j] : partial[i][j], out + j * 8, stride);
  }
};

// Computes one tile over K in [k_begin, k_end). Calls epilogue.store(m, n, acc) for each element within M x N.
template <typename Shape, typename A, typename B, typename Epilogue>
METAL_FUNC void gemm_tile(A a, B b, uint k_begin, uint k_end, Epilogue epilogue, uint M, uint N, TileOffset tile,
                          threadgroup uint4* memory, GroupThread g) {
  typedef typename Shape::type T;
  typedef GemmAccumulators<Shape> Accumulators;
  enum : uint { kStride = Shape::stride, kPartialK = 64 };
  threadgroup T* a_tile = (threadgroup T*)memory;
  threadgroup T* b_tile = a_tile + Shape::BM * kStride;
  const uint simdgroup = g.index / g.width;
  const uint sm = simdgroup / Shape::WN * Shape::SM, sn = simdgroup % Shape::WN * Shape::SN;
  typedef BlockLoader<T, Shape::BM, Shape::BK, Shape::threads> ALoader;
  typedef BlockLoader<T, Shape::BN, Shape::BK, Shape::threads> BLoader;
  ALoader a_loader;
  BLoader b_loader;
  typename A::Cursor a_cursors[ALoader::kVectors];
  typename B::Cursor b_cursors[BLoader::kVectors];
  ALoader::init(a, tile.m, g.index, a_cursors);
  BLoader::init(b, tile.n, g.index, b_cursors);
  Accumulators acc;
  acc.clear();
  a_loader.load(a, a_cursors, k_begin, g.index);
  b_loader.load(b, b_cursors, k_begin, g.index);
  for (uint k = k_begin; k < k_end; k += Shape::BK) {
    a_loader.store(a, a_tile, kStride, g.index);
    b_loader.store(b, b_tile, kStride, g.index);
    tg_barrier();
    const uint next = k + Shape::BK;
    if (next < k_end) {  // prefetch the next block while multiplying this one
      a_loader.load(a, a_cursors, next, g.index);
      b_loader.load(b, b_cursors, next, g.index);
    }
    acc.multiply(a_tile + sm * kStride, b_tile + sn * kStride, g.lane);
    if (Accumulators::kTwoLevels && (next >= k_end || (next - k_begin) % kPartialK == 0)) acc.add_partials();
    tg_barrier();
  }
  // Store eight rows at a time through threadgroup memory, so that the epilogue's accesses coalesce.
  enum : uint { kOutStride = Shape::SN + 8 };
  threadgroup float* out = (threadgroup float*)memory + simdgroup * 8 * kOutStride;
#pragma unroll
  for (uint i = 0; i < Shape::SM / 8; ++i) {
    acc.store_rows(i, out, kOutStride, g.lane);
    sg_barrier();
    for (uint e = g.lane; e < 8 * Shape::SN; e += g.width) {
      const uint r = e / Shape::SN, c = e % Shape::SN;
      const uint m = tile.m + sm + i * 8 + r, n = tile.n + sn + c;
      if (m < M && n < N) epilogue.store(m, n, out[r * kOutStride + c]);
    }
    sg_barrier();
  }
}
