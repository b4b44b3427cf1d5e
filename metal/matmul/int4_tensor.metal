// Dequantizes 4-bit weights for the tensor tier's GEMM.
#include "lib/instantiate.h"
#include "lib/vec.h"
#include "matmul/int4.h"

// Dequantizes the rows from `first_row` on. gid = (four adjacent weights, row)
template <typename T>
kernel void dequantize_int4(device T* out [[buffer(0)]], device const uchar* weight [[buffer(1)]],
                            device const T* scales [[buffer(2)]], constant Int4Params& p [[buffer(3)]],
                            constant uint& first_row [[buffer(4)]], uint2 gid [[thread_position_in_grid]]) {
  const Int4Loader<T> weights = {weight, scales, p.N, p.K, p.group, true};
  const uint k = gid.x * 4;
  const uint4 words = weights.load(weights.at(first_row + gid.y), k);
  Vec<T, 4> values;
  MPSX_UNROLL
  for (uint i = 0; i < 4; ++i) values.v[i] = T(as_type<float>(words[i]));
  store_vec(out + (ulong(gid.y) * p.K + k), values);
}

#define MPSX_DEQUANTIZE(T, TAG, ...) MPSX_KERNEL("dequantize_int4_" #TAG, dequantize_int4<T>)
MPSX_FOR_FLOAT(MPSX_DEQUANTIZE)
