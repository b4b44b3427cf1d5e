// Max pooling over arbitrary windows: max_pool3d, and adaptive and fractional max pooling in two and three dimensions.
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "lib/error.h"
#include "pool/maximum.h"
#include "pool/window.h"
#include "pool/window_params.h"

// NaN is treated as greater than any number. If there are several NaNs, the last one is kept. There is one threadgroup
// per row of an output plane. group = (row, plane).
template <typename T>
kernel void window_max(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                       device const T* in [[buffer(2)]], device const int* tables [[buffer(3)]],
                       constant WindowPoolParams& p [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                       uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  typedef compute_t<T> C;
  const int oz = int(group.x) / p.out[1], oy = int(group.x) - oz * p.out[1];
  device const T* plane = in + ulong(group.y) * ulong(p.in[0]) * ulong(p.in[1]) * ulong(p.in[2]);
  device const int* begins = tables + ulong(group.y) * ulong(p.table);
  device const int* ends = begins + (p.out[0] + p.out[1] + p.out[2]);
  const int z0 = begins[oz], z1 = ends[oz], y0 = begins[p.out[0] + oy], y1 = ends[p.out[0] + oy];
  const ulong row = (ulong(group.y) * ulong(p.out[0]) * ulong(p.out[1]) + group.x) * ulong(p.out[2]);
  for (int ox = int(tid); ox < p.out[2]; ox += int(threads.x)) {
    const int x0 = begins[p.out[0] + p.out[1] + ox], x1 = ends[p.out[0] + p.out[1] + ox];
    C best = lowest_of(C(0));
    int where = (z0 * p.in[1] + y0) * p.in[2] + x0;
    for (int z = z0; z < z1; z += p.dilation[0])
      for (int y = y0; y < y1; y += p.dilation[1]) {
        const int start = (z * p.in[1] + y) * p.in[2];
        MPSX_FEW
        for (int x = x0; x < x1; x += p.dilation[2]) take(best, where, C(plane[start + x]), start + x);
      }
    out[row + ulong(ox)] = T(best);
    indices[row + ulong(ox)] = where;
  }
}

// Gradient for disjoint windows: stores each window's gradient at the index of its maximum and zeros all other
// elements. There is one threadgroup per plane. These kernels copy raw bits, so they are named by element size.
template <typename T>
kernel void window_max_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                           device const long* indices [[buffer(2)]], constant WindowPlaneParams& p [[buffer(3)]],
                           device ErrorRecord* errors [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint count = uint(p.in), windows = uint(p.out);
  device T* to = grad_in + ulong(g.group.x) * count;
  device const T* from = grad_out + ulong(g.group.x) * windows;
  device const long* at = indices + ulong(g.group.x) * windows;
  MPSX_VECTORIZE
  for (uint i = g.index; i < count; i += g.count) to[i] = T(0);
  tg_device_barrier();
  for (uint i = g.index; i < windows; i += g.count) {
    const long target = checked_index(at[i], long(count), false, 1, errors);
    if (target >= 0) to[target] = from[i];
  }
}

#define WINDOW_MAX(T, TAG, ...) MPSX_KERNEL("window_max_" #TAG, window_max<T>)
MPSX_FOR_REAL(WINDOW_MAX, )
MPSX_KERNEL("window_max_bwd_i8", window_max_bwd<char>)
MPSX_KERNEL("window_max_bwd_i16", window_max_bwd<short>)
MPSX_KERNEL("window_max_bwd_i32", window_max_bwd<int>)
MPSX_KERNEL("window_max_bwd_i64", window_max_bwd<long>)
