// Maxima of windows of rows, where nobody asks for their places.
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "pool/window.h"

// v against the best so far: a NaN wins.
template <typename C>
inline C larger(C best, C v) {
  return (v > best) | is_nan(v) ? v : best;
}

// N neighbouring windows, S elements apart (0: `stride`), that lie inside; registers hold them.
template <int N, int S, typename T>
inline void maxima_inside(device T* to, device const T* from, constant Pool1dParams& p) {
  typedef compute_t<T> C;
  const int step = S ? S : p.stride;
  C best[N];
  for (int j = 0; j < N; ++j) best[j] = C(from[j * step]);
  for (int k = 1; k < p.kernel; ++k)
    for (int j = 0; j < N; ++j) best[j] = larger(best[j], C(from[k * p.dilation + j * step]));
  for (int j = 0; j < N; ++j) to[j] = T(best[j]);
}

// The window that begins at `start`, and may reach over an edge; at least one of its elements does not.
template <typename T>
inline T maximum_at_edge(device const T* x, int start, constant Pool1dParams& p) {
  typedef compute_t<T> C;
  const int first = first_inside(start, p.dilation), end = min(start + (p.kernel - 1) * p.dilation + 1, p.in);
  C best = C(x[first]);
  for (int i = first + p.dilation; i < end; i += p.dilation) best = larger(best, C(x[i]));
  return T(best);
}

// gid = (tile of the result's row, row).
template <typename T>
kernel void max_pool1d(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                       constant Pool1dParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  device const T* x = in + ulong(gid.y) * ulong(p.in);
  const int tile = int(gid.x) * kTile, last = min(tile + kTile, p.out);
  device T* to = out + ulong(gid.y) * ulong(p.out);
#if MPSX_VECTOR_BYTES
  for (int ox = tile; ox < last; ++ox) to[ox] = maximum_at_edge(x, ox * p.stride - p.pad, p);
#else
  // The windows [begin, end) lie inside.
  const int reach = (p.kernel - 1) * p.dilation;
  const int begin = min((p.pad + p.stride - 1) / p.stride, p.out);
  const int end = p.in + p.pad <= reach ? begin : clamp((p.in - 1 - reach + p.pad) / p.stride + 1, begin, p.out);
  for (int ox = tile; ox < last;) {
    const int inside = ox < begin ? 0 : min(end, last) - ox, start = ox * p.stride - p.pad;
    int count = 1;
    if (inside >= 16) {
      count = 16;
      if (p.stride == 1) maxima_inside<16, 1>(to + ox, x + start, p);
      else if (p.stride == 2) maxima_inside<16, 2>(to + ox, x + start, p);
      else maxima_inside<16, 0>(to + ox, x + start, p);
    } else if (inside >= 4) {
      count = 4;
      maxima_inside<4, 0>(to + ox, x + start, p);
    } else {
      to[ox] = maximum_at_edge(x, start, p);
    }
    ox += count;
  }
#endif
}

#define MAX_POOL1D(T, TAG, ...) MPSX_KERNEL("max_pool1d_" #TAG, max_pool1d<T>)
MPSX_FOR_REAL(MAX_POOL1D, )
