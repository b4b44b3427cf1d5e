// Dropout: the mask is drawn, stored and applied in one pass.
#include "lib/instantiate.h"
#include "lib/types.h"
#include "random/chunk.h"

// p.bound: words up to this one keep their element; p.a: the scale of what is kept.
template <typename T>
kernel void dropout(device T* out [[buffer(0)]], device bool* mask [[buffer(1)]], device const T* in [[buffer(2)]],
                    constant RandomParams& p [[buffer(3)]], uint group [[threadgroup_position_in_grid]],
                    uint tid [[thread_index_in_threadgroup]], uint tpt [[threads_per_threadgroup]]) {
  const RandomChunk chunk = random_chunk(p, group);
  device T* o = out + chunk.start;
  device bool* m = mask + chunk.start;
  device const T* x = in + chunk.start;
  const float scale = p.a;
  const uint bound = p.bound;
  if (chunk.left >= kRandomChunk) {
    MPSX_VECTORIZE
    for (uint j = tid; j < kRandomBlocks; j += tpt) {
      const PhiloxBlock r = philox(p.seed, chunk.block + j);
      store(m, j, Quad<bool>{r.x <= bound, r.y <= bound, r.z <= bound, r.w <= bound});
      store(o, j,
            Quad<float>{float(x[j]) * (r.x <= bound ? scale : 0.0f),
                        float(x[j + kRandomBlocks]) * (r.y <= bound ? scale : 0.0f),
                        float(x[j + 2 * kRandomBlocks]) * (r.z <= bound ? scale : 0.0f),
                        float(x[j + 3 * kRandomBlocks]) * (r.w <= bound ? scale : 0.0f)});
    }
  } else {
    const uint left = uint(chunk.left), blocks = min(left, uint(kRandomBlocks));
    for (uint j = tid; j < blocks; j += tpt) {
      const PhiloxBlock r = philox(p.seed, chunk.block + j);
      const Quad<bool> kept = {r.x <= bound, r.y <= bound, r.z <= bound, r.w <= bound};
      store(m, j, kept, left);
      o[j] = T(float(x[j]) * (kept.x ? scale : 0.0f));
      for (uint k = 1, i = j + kRandomBlocks; i < left; ++k, i += kRandomBlocks)
        o[i] = T(float(x[i]) * ((k == 1 ? kept.y : k == 2 ? kept.z : kept.w) ? scale : 0.0f));
    }
  }
}

template <typename T>
kernel void dropout_backward(device T* out [[buffer(0)]], device const T* grad [[buffer(1)]],
                             device const bool* mask [[buffer(2)]], constant RandomParams& p [[buffer(3)]],
                             uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                             uint tpt [[threads_per_threadgroup]]) {
  const RandomChunk chunk = random_chunk(p, group);
  device T* o = out + chunk.start;
  device const T* g = grad + chunk.start;
  device const bool* m = mask + chunk.start;
  const float scale = p.a;
  const uint count = uint(min(chunk.left, ulong(kRandomChunk)));
  MPSX_VECTORIZE
  for (uint i = tid; i < count; i += tpt) o[i] = T(float(g[i]) * (m[i] ? scale : 0.0f));
}

#define MPSX_DROPOUT(T, tag, ...)          \
  MPSX_KERNEL("dropout_" #tag, dropout<T>) \
  MPSX_KERNEL("dropout_backward_" #tag, dropout_backward<T>)
MPSX_FOR_FLOAT(MPSX_DROPOUT)
