// embedding_bag: rows of a table added up, averaged, or their maxima, bag by bag.
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "index/bag_params.h"
#include "index/check.h"

// Elements of a row that a CPU thread handles together; a GPU's handles one.
constexpr constant uint kTile = MPSX_VECTOR_BYTES ? 1 : 64;

#if !MPSX_VECTOR_BYTES
// The sum of N neighbouring elements of a bag's rows, which registers hold; `table`: from the first of them on.
template <uint N, typename T>
inline void add_up(device T* to, device const T* table, device const long* indices, device const T* weights,
                   constant BagParams& p, ulong begin, ulong end, float scale) {
  float sum[N];
  for (uint j = 0; j < N; ++j) sum[j] = 0.0f;
  for (ulong k = begin; k < end; ++k) {
    const long index = indices[k];
    if (index == p.padding) continue;
    device const T* row = table + ulong(known_index(index, p.rows, false)) * p.width;
    const float weight = p.weighted ? float(weights[k]) : 1.0f;
    for (uint j = 0; j < N; ++j) sum[j] += weight * float(row[j]);
  }
  for (uint j = 0; j < N; ++j) to[j] = T(sum[j] / scale);
}
#endif

// One threadgroup per bag. `maxima` says, in mode max, which row each element is of; `sizes` how many rows count.
template <typename T>
kernel void embedding_bag(device T* out [[buffer(0)]], device long* sizes [[buffer(1)]],
                          device long* maxima [[buffer(2)]], device const T* table [[buffer(3)]],
                          device const long* indices [[buffer(4)]], device const long* offsets [[buffer(5)]],
                          device const T* weights [[buffer(6)]], constant BagParams& p [[buffer(7)]],
                          uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                          uint3 threads [[threads_per_threadgroup]]) {
  const uint bag = group.x;
  const ulong begin = ulong(offsets[bag]), end = bag + 1 < p.offsets ? ulong(offsets[bag + 1]) : ulong(p.count);
  long size = 0;
  for (ulong k = begin; k < end; ++k) size += indices[k] != p.padding ? 1 : 0;
  if (tid == 0) sizes[bag] = size;
  const float scale = p.mode == 1 && size > 0 ? float(size) : 1.0f;
  uint done = 0;
#if !MPSX_VECTOR_BYTES
  if (p.mode != 2)
    for (; done + 32 <= p.width; done += 32)
      add_up<32>(out + ulong(bag) * p.width + done, table + done, indices, weights, p, begin, end, scale);
#endif
  for (uint c = done + tid * kTile; c < p.width; c += threads.x * kTile) {
    const uint n = min(kTile, p.width - c);
    float sum[kTile];
    int where[kTile];
    for (uint j = 0; j < n; ++j) {
      sum[j] = 0.0f;
      where[j] = 0;
    }
    bool first = true;
    for (ulong k = begin; k < end; ++k) {
      const long index = indices[k];
      if (index == p.padding) continue;
      device const T* row = table + ulong(known_index(index, p.rows, false)) * p.width + c;
      if (p.mode == 2) {
        MPSX_VECTORIZE
        for (uint j = 0; j < n; ++j) {
          const float v = float(row[j]);
          const bool taken = first || v > sum[j];
          sum[j] = taken ? v : sum[j];
          where[j] = taken ? int(index) : where[j];
        }
        first = false;
      } else {
        const float weight = p.weighted ? float(weights[k]) : 1.0f;
        MPSX_VECTORIZE
        for (uint j = 0; j < n; ++j) sum[j] += weight * float(row[j]);
      }
    }
    device T* to = out + ulong(bag) * p.width + c;
    for (uint j = 0; j < n; ++j) to[j] = T(sum[j] / scale);
    if (p.mode == 2)
      for (uint j = 0; j < n; ++j) maxima[ulong(bag) * p.width + c + j] = where[j];
  }
}

#define EMBEDDING_BAG(T, TAG, ...) MPSX_KERNEL("embedding_bag_" #TAG, embedding_bag<T>)
MPSX_FOR_FLOAT(EMBEDDING_BAG, )
