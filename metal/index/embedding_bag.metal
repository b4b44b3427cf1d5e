// embedding_bag: the sum, mean or maximum of the table rows in each bag.
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "index/bag_params.h"
#include "index/check.h"

constexpr constant uint kBagColumns = 4;  // adjacent columns per thread

// One threadgroup per bag. For mode max, `maxima` receives the table row of each maximum. `sizes` receives the number
// of rows in each bag, without padding.
template <typename T>
kernel void embedding_bag(device T* out [[buffer(0)]], device long* sizes [[buffer(1)]],
                          device long* maxima [[buffer(2)]], device const T* table [[buffer(3)]],
                          device const long* indices [[buffer(4)]], device const long* offsets [[buffer(5)]],
                          device const T* weights [[buffer(6)]], constant BagParams& p [[buffer(7)]],
                          uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                          uint3 threads [[threads_per_threadgroup]]) {
  const uint bag = group.x;
  const ulong begin = ulong(offsets[bag]), end = bag + 1 < p.bags ? ulong(offsets[bag + 1]) : ulong(p.count);
  long size = 0;
  for (ulong k = begin; k < end; ++k) size += indices[k] != p.padding ? 1 : 0;
  if (tid == 0) sizes[bag] = size;
  const float scale = p.mode == 1 && size > 0 ? float(size) : 1.0f;
  for (uint c = tid * kBagColumns; c < p.width; c += threads.x * kBagColumns) {
    const uint n = min(kBagColumns, p.width - c);
    float sum[kBagColumns];
    int where[kBagColumns];
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
