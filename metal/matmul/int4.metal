// Matrix multiplication with 4-bit weights.
#include "lib/instantiate.h"
#include "matmul/int4.h"

template <typename T>
struct Int4Epilogue {
  device T* out;
  uint N;
  void store(uint row, uint column, float acc) const { out[ulong(row) * N + column] = T(acc); }
};

template <typename T>
[[max_total_threads_per_threadgroup(kTile64Threads)]]
kernel void matmul_int4(device T* out [[buffer(0)]], device const T* a [[buffer(1)]],
                        device const uchar* weight [[buffer(2)]], device const T* scales [[buffer(3)]],
                        constant Int4Params& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  typedef Tile64<float> Shape;
  threadgroup uint4 memory[Shape::memory];
  const TileOffset tile = {g.group.y * Shape::BM, g.group.x * Shape::BN};
  const auto a_loader = matrix_loader<float>(a, p.a_row, p.a_column, p.M, p.K, p.vectorize_a);
  const Int4Loader<T> b_loader = {weight, scales, p.N, p.K, p.group, true};
  const Int4Epilogue<T> epilogue = {out, p.N};
  gemm_tile<Shape>(a_loader, b_loader, 0, p.K, epilogue, p.M, p.N, tile, memory, g);
}

#define MPSX_INT4(T, TAG, ...) MPSX_KERNEL("matmul_int4_" #TAG, matmul_int4<T>)
MPSX_FOR_FLOAT(MPSX_INT4)
