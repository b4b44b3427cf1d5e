// Rotary position embedding: rotates each pair (a, b) of a row by an angle that depends on its position. The result is
// (a cos - b sin, b cos + a sin). J. Su et al., arXiv:2104.09864, equation 34.
#include "attention/params.h"
#include "lib/instantiate.h"
#include "lib/index.h"
#include "lib/types.h"

// P: stride between consecutive pairs. It is 1 if pairs combine an element of the row's first half with one of the
// second half, and 2 if pairs are interleaved. A: stride between the angles of consecutive pairs. C: type of the sines
// and cosines.
template <typename T, typename C, int P, int A>
kernel void rotary_embedding(device T* out [[buffer(0)]], device const T* x [[buffer(1)]],
                             device const C* cosines [[buffer(2)]], device const C* sines [[buffer(3)]],
                             constant RotaryParams& p [[buffer(4)]], uint3 gid [[thread_position_in_grid]]) {
  device const T* from = x + row_offset(p, 1, gid);
  device T* to = out + row_offset(p, 0, gid);
  device const C* c = cosines + row_offset(p, 2, gid);
  device const C* s = sines + row_offset(p, 3, gid);
  const ulong i = ulong(gid.x) * P, k = ulong(gid.x) * A;
  const float a = float(from[i]), b = float((from + p.second)[i]);
  const float cos_a = float(c[k]), cos_b = float((c + p.cos_second)[k]);
  const float sin_a = p.sign * float((s + p.sin_first)[k]), sin_b = p.sign * float((s + p.sin_second)[k]);
  to[i] = T(a * cos_a - b * sin_a);
  (to + p.second)[i] = T(b * cos_b + a * sin_b);
}

#define ROTARY(T, TAG, C, CTAG)                                                                                 \
  MPSX_KERNEL("rotary_embedding_halves_" #TAG "_" #CTAG, rotary_embedding<T, C, 1, 1>)                          \
  MPSX_KERNEL("rotary_embedding_interleaved_" #TAG "_" #CTAG, rotary_embedding<T, C, 2, 1>)                     \
  MPSX_KERNEL("rotary_embedding_interleaved_pairs_" #TAG "_" #CTAG, rotary_embedding<T, C, 2, 2>)
MPSX_FOR_FLOAT(ROTARY, float, f32)
ROTARY(half, f16, half, f16)
ROTARY(bfloat, bf16, bfloat, bf16)
