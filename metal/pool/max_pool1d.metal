// Max pooling along rows, without indices.
#include "lib/instantiate.h"
#include "lib/arithmetic.h"
#include "pool/maximum.h"
#include "pool/window.h"

// NaN propagates through an addition, so clang can compile each comparison to a select without branches.
template <typename C> inline C larger(C a, C b) { return propagating_max(a, b); }
inline float larger(float a, float b) { return is_nan(a) ? a + b : (a > b ? a : b); }

// Returns the maximum of elements first, first + step, and so on, up to but not including `end`.
template <typename C, typename T>
inline C largest(device const T* x, int first, int end, int step, int /* count */) {
  C best = C(x[first]);
  MPSX_FEW
  for (int i = first + step; i < end; i += step) best = larger(best, C(x[i]));
  return best;
}

// If a window contains NaN, the result is NaN. With dilation, a window may contain only padding. gid = (window, row).
template <typename T>
kernel void max_pool1d(device T* out [[buffer(0)]], device const T* in [[buffer(1)]],
                       constant Pool1dParams& p [[buffer(2)]], uint2 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  device const T* x = in + ulong(gid.y) * ulong(p.in);
  const int start = int(gid.x) * p.stride - p.pad, end = min(start + (p.kernel - 1) * p.dilation + 1, p.in);
  const int first = first_inside(start, p.dilation);
  const C best = first < end ? largest<C>(x, first, end, p.dilation, p.kernel) : lowest_of(C(0));
  out[ulong(gid.y) * ulong(p.out) + gid.x] = T(best);
}

#define MAX_POOL1D(T, TAG, ...) MPSX_KERNEL("max_pool1d_" #TAG, max_pool1d<T>)
MPSX_FOR_REAL(MAX_POOL1D, )
