// gather, and a kernel that combines several index tensors into one flat index. These kernels copy raw bits, so they
// are named by element size.
#include "lib/instantiate.h"
#include "index/check.h"
#include "index/params.h"
#include "lib/index.h"

// Operands: the output, the input (with stride 0 along the indexed dimension), and an index that index_check has
// validated.
template <typename T>
kernel void gather(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                   device const long* index [[buffer(2)]], constant IndexParams& p [[buffer(3)]],
                   uint3 gid [[thread_position_in_grid]]) {
  device const T* from = in + row_offset(p, 1, gid);
  device const long* at = index + row_offset(p, 2, gid);
  const long k = known_index(at[long(gid.x) * p.stride[2][0]], p.dim_size, p.negative != 0);
  (out + row_offset(p, 0, gid))[long(gid.x) * p.stride[0][0]] = from[long(gid.x) * p.stride[1][0] + k * p.dim_stride];
}

// Adds the contribution of one index tensor to the flat index.
kernel void index_position(device long* out [[buffer(0)]], device const long* index [[buffer(1)]],
                           constant IndexParams& p [[buffer(2)]], uint3 gid [[thread_position_in_grid]]) {
  device long* to = out + row_offset(p, 0, gid) + long(gid.x) * p.stride[0][0];
  const long k = known_index((index + row_offset(p, 1, gid))[long(gid.x) * p.stride[1][0]], p.dim_size, true);
  const long share = k * p.dim_stride;
  *to = p.add ? *to + share : share;
}

#define GATHER(T, TAG) MPSX_KERNEL("gather_" #TAG, gather<T>)
GATHER(char, i8)
GATHER(short, i16)
GATHER(int, i32)
GATHER(long, i64)
