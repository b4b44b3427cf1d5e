// Rows picked by an index: index_select, embedding, and indexing by tensors. Bits are moved, named by their size.
#include "lib/instantiate.h"
#include "index/check.h"
#include "index/params.h"

// One threadgroup per row; group = (index, outer).
template <typename T>
kernel void index_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                       device const long* index [[buffer(2)]], constant RowsParams& p [[buffer(3)]],
                       device ErrorRecord* errors [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                       uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const long k = checked_index(index[group.x], p.size, p.negative != 0, p.dimension, errors);
  if (k < 0) return;
  device const T* from = in + (long(group.y) * p.outer + k * p.pitch);
  device T* to = out + (ulong(group.y) * p.count + group.x) * p.row;
  MPSX_VECTORIZE
  for (uint i = tid; i < p.row; i += threads.x) to[i] = from[i];
}

// Rows of one element, the index checked before; gid = (index, outer).
template <typename T>
kernel void index_elements(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                           device const long* index [[buffer(2)]], constant RowsParams& p [[buffer(3)]],
                           uint2 gid [[thread_position_in_grid]]) {
  const long k = known_index(index[gid.x], p.size, p.negative != 0);
  out[ulong(gid.y) * p.count + gid.x] = in[long(gid.y) * p.outer + k * p.pitch];
}

#define INDEX(T, TAG)                                    \
  MPSX_KERNEL("index_rows_" #TAG, index_rows<T>)         \
  MPSX_KERNEL("index_elements_" #TAG, index_elements<T>)
INDEX(char, i8)
INDEX(short, i16)
INDEX(int, i32)
INDEX(long, i64)
