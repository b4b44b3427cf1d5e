// Computes a tile of a GEMM on the host driver, where a threadgroup is one thread, with 4 x 32 accumulators in
// registers.
#pragma once

// A placeholder, because a threadgroup of one thread has no SIMD-group matrices.
template <typename Shape>
struct GemmAccumulators<Shape, SimdgroupTier> {};

// simdgroup_matrix is declared but not defined, because only kernels with real SIMD groups use it.
template <typename T, int C, int R>
struct simdgroup_matrix {
  vec<T, 2> thread_elements();
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
template <typename T, int C, int R>
simdgroup_matrix<T, C, R> make_filled_simdgroup_matrix(T value);

// The compiler keeps values of its vector types in registers, unlike arrays of floats.
typedef float WideLanes __attribute__((vector_size(64), aligned(4)));
enum : uint { kWideM = 4, kWideN = 32, kWideK = 64 };

inline void wide_gemm_block(threadgroup const float* a, uint a_stride, threadgroup const float* b, uint b_stride,
                            uint k_count, threadgroup float* out, uint out_stride) {
#pragma clang fp contract(fast)
  WideLanes sum[kWideM][2];
#pragma unroll
  for (uint i = 0; i < kWideM; ++i) sum[i][0] = WideLanes{}, sum[i][1] = WideLanes{};
  for (uint k = 0; k < k_count; ++k) {
    const WideLanes y0 = *(const WideLanes*)(b + k * b_stride), y1 = *(const WideLanes*)(b + k * b_stride + 16);
#pragma unroll
    for (uint i = 0; i < kWideM; ++i) {
      sum[i][0] += a[i * a_stride + k] * y0;
      sum[i][1] += a[i * a_stride + k] * y1;
    }
  }
#pragma unroll
  for (uint i = 0; i < kWideM; ++i) {
    *(WideLanes*)(out + i * out_stride) += sum[i][0];
    *(WideLanes*)(out + i * out_stride + 16) += sum[i][1];
  }
}

// Converts a block of an operand to float. The result is stored by rows, as (mn, k), or as (k, mn) if transposed.
template <typename T, typename Operand>
inline void stage_block(Operand operand, uint mn_begin, uint mn_count, uint k_begin, uint k_count, bool transposed,
                        thread float* to, uint stride) {
  enum : uint { kVec = 16 / sizeof(T) };
  const uint mn_step = operand.k_contiguous ? 1 : kVec, k_step = operand.k_contiguous ? kVec : 1;
  for (uint mn = 0; mn < mn_count; mn += mn_step) {
    const typename Operand::Cursor cursor = operand.at(mn_begin + mn);
    for (uint k = 0; k < k_count; k += k_step) {
      const uint4 vector = operand.load(cursor, k_begin + k);
      T element[kVec];
      __builtin_memcpy(element, &vector, 16);
      for (uint i = 0; i < kVec; ++i) {
        const uint row = operand.k_contiguous ? mn : mn + i, column = operand.k_contiguous ? k + i : k;
        to[transposed ? column * stride + row : row * stride + column] = float(element[i]);
      }
    }
  }
}

template <typename Shape, typename A, typename B, typename Epilogue>
METAL_FUNC void gemm_tile(A a, B b, uint k_begin, uint k_end, Epilogue epilogue, uint M, uint N, TileOffset tile,
                          threadgroup uint4* memory, GroupThread g) {
  typedef typename Shape::type T;
  enum : uint { kStride = Shape::BN + 4 };
  float a_tile[Shape::BM * kWideK], b_tile[kWideK * kStride], acc[Shape::BM * kStride];
  const uint tile_m = min(uint(Shape::BM), M - tile.m), tile_n = min(uint(Shape::BN), N - tile.n);
  const uint padded_m = (tile_m + 7) / 8 * 8, padded_n = (tile_n + kWideN - 1) / kWideN * kWideN;
  for (uint i = 0; i < padded_m * kStride; ++i) acc[i] = 0.0f;
  for (uint k = k_begin; k < k_end; k += kWideK) {
    const uint tile_k = (min(uint(kWideK), k_end - k) + 7) / 8 * 8;
    stage_block<T>(a, tile.m, padded_m, k, tile_k, false, a_tile, kWideK);
    stage_block<T>(b, tile.n, padded_n, k, tile_k, true, b_tile, kStride);
    for (uint j = 0; j < padded_n; j += kWideN)
      for (uint i = 0; i < padded_m; i += kWideM)
        wide_gemm_block(a_tile + i * kWideK, kWideK, b_tile + j, kStride, tile_k, acc + i * kStride + j, kStride);
  }
  for (uint i = 0; i < tile_m; ++i)
    for (uint j = 0; j < tile_n; ++j) epilogue.store(tile.m + i, tile.n + j, acc[i * kStride + j]);
}
