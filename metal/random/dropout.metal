// Dropout. The mask is generated, stored and applied in one pass.
#include "lib/instantiate.h"
#include "lib/vec_loop.h"
#include "random/chunk.h"

// Processes full chunks. Each thread computes as many consecutive Philox blocks as a vector has elements. Words k of
// these blocks yield one vector in quarter k of the chunk.
template <uint N, typename T>
inline void dropout_vecs(VecLoop<N, false> d, device T* out, device bool* mask, device const T* x, ulong seed,
                          ulong block, uint bound, float scale) {
  MPSX_VECTORIZE
  for (; d.more(); d.at += d.step) {
    Vec<T, N> v[4];
    Vec<bool, N> kept[4];
    MPSX_UNROLL for (uint k = 0; k < 4; ++k) v[k] = load_vec<N>(x + d.at + k * kRandomBlocks);
    MPSX_UNROLL for (uint i = 0; i < N; ++i) {
      const PhiloxBlock r = philox(seed, block + d.at + i);
      kept[0].v[i] = r.x <= bound;
      kept[1].v[i] = r.y <= bound;
      kept[2].v[i] = r.z <= bound;
      kept[3].v[i] = r.w <= bound;
      MPSX_UNROLL for (uint k = 0; k < 4; ++k) v[k].v[i] = T(float(v[k].v[i]) * (kept[k].v[i] ? scale : 0.0f));
    }
    MPSX_UNROLL for (uint k = 0; k < 4; ++k) {
      store_vec<N>(mask + d.at + k * kRandomBlocks, kept[k]);
      store_vec<N>(out + d.at + k * kRandomBlocks, v[k]);
    }
  }
}

// Keeps an element if its random word is at most p.bound. Kept elements are multiplied by p.a.
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
  if (chunk.left >= kRandomChunk && p.vectorized) {
    dropout_vecs(VecLoop<vec_size<T>, false>(tid, tpt, 0, kRandomBlocks), o, m, x, p.seed, chunk.block, bound, scale);
  } else if (chunk.left >= kRandomChunk) {
    dropout_vecs(VecLoop<1, false>(tid, tpt, 0, kRandomBlocks), o, m, x, p.seed, chunk.block, bound, scale);
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

template <uint N, typename T>
inline void masked(VecLoop<N, false> d, device T* out, device const T* grad, device const bool* mask, float scale) {
  MPSX_VECTORIZE
  for (; d.more(); d.next()) {
    VecBatch<T, N> v = load_vecs(d, grad, 1);
    const VecBatch<bool, N> kept = load_vecs(d, mask, 1);
    MPSX_UNROLL for (uint i = 0; i < v.count; ++i) v.at[i] = T(float(v.at[i]) * (kept.at[i] ? scale : 0.0f));
    store_vecs(d, out, 1, v);
  }
}
template <typename T>
kernel void dropout_backward(device T* out [[buffer(0)]], device const T* grad [[buffer(1)]],
                             device const bool* mask [[buffer(2)]], constant RandomParams& p [[buffer(3)]],
                             uint group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                             uint tpt [[threads_per_threadgroup]]) {
  const RandomChunk chunk = random_chunk(p, group);
  const uint count = uint(min(chunk.left, ulong(kRandomChunk)));
  MPSX_GROUP_VEC_LOOPS(T, count, masked, out + chunk.start, grad + chunk.start, mask + chunk.start, p.a);
}

#define MPSX_DROPOUT(T, tag, ...)          \
  MPSX_KERNEL("dropout_" #tag, dropout<T>) \
  MPSX_KERNEL("dropout_backward_" #tag, dropout_backward<T>)
MPSX_FOR_FLOAT(MPSX_DROPOUT)
