// Selects rows by index, for index_select, embedding, and indexing with tensors. These kernels copy raw bits, so they
// are named by element size.
#include "lib/instantiate.h"
#include "index/check.h"
#include "index/params.h"
#include "lib/vec_loop.h"

template <uint N, typename T>
inline void copy(VecLoop<N, false> d, device T* to, device const T* from) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) store_vecs(d, to, 1, load_vecs(d, from, 1));
}

// Each threadgroup copies up to p.rows_per_group rows. group = (block of rows, outer).
template <typename T>
kernel void index_rows(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                       device const long* index [[buffer(2)]], constant RowsParams& p [[buffer(3)]],
                       device ErrorRecord* errors [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                       uint thread_index [[thread_index_in_threadgroup]],
                       uint3 threads [[threads_per_threadgroup]]) {
  const uint tpt = max(threads.x / p.rows_per_group, 1u), parts = threads.x / tpt;
  const uint part = thread_index / tpt, tid = thread_index - part * tpt;
  const uint end = min((group.x + 1) * p.rows_per_group, p.count);
  for (uint row = group.x * p.rows_per_group + part; row < end && part < parts; row += parts) {
    const long k = checked_index(index[row], p.size, p.negative != 0, p.dimension, errors);
    if (k < 0) continue;
    device const T* from = in + (long(group.y) * p.outer + k * p.pitch);
    device T* to = out + (ulong(group.y) * p.count + row) * p.row;
    MPSX_GROUP_VEC_LOOPS(T, p.row, copy, to, from);
  }
}

// Selects single elements instead of rows. The index has been validated. gid = (index, outer).
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
