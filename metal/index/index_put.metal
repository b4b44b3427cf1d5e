// Writes rows at validated indices. These kernels copy raw bits, so they are named by element size.
#include "lib/instantiate.h"
#include "index/check.h"
#include "index/params.h"

// Computes out[o][index[k]][:] = in[o][k][:], with one threadgroup per row. group = (index, outer).
template <typename T>
kernel void index_put_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                           device const long* index [[buffer(2)]], constant RowsParams& p [[buffer(3)]],
                           uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                           uint3 threads [[threads_per_threadgroup]]) {
  MPSX_ALLOW_RACES(out);  // PyTorch does not define which value remains if an index occurs several times
  const long k = known_index(index[group.x], p.size, p.negative != 0);
  device const T* from = in + (ulong(group.y) * p.count + group.x) * p.row;
  device T* to = out + (long(group.y) * p.outer + k * p.pitch);
  MPSX_VECTORIZE
  for (uint i = tid; i < p.row; i += threads.x) to[i] = from[i];
}

#define PUT(T, TAG) MPSX_KERNEL("index_put_rows_" #TAG, index_put_rows<T>)
PUT(char, i8)
PUT(short, i16)
PUT(int, i32)
PUT(long, i64)
