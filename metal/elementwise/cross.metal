// Cross products. A thread computes all components of a vector, because the output may alias an operand.
#include "elementwise/complex.h"
#include "elementwise/cross_params.h"
#include "lib/arithmetic.h"
#include "lib/compute.h"
#include "lib/instantiate.h"

// Rounds after every operation, like PyTorch's CPU kernel.
template <typename T>
inline T cross_part(compute_t<T> a, compute_t<T> b, compute_t<T> c, compute_t<T> d) {
  typedef compute_t<T> C;
  return T(subtract_scaled(C(T(multiply(a, b))), C(T(multiply(c, d))), C(1)));
}

template <>
inline float2 cross_part<float2>(float2 a, float2 b, float2 c, float2 d) {
  return complex_product(a, b) - complex_product(c, d);
}

// gid = (vector within the row, row). All tensors have the same layout.
template <typename T>
kernel void cross_product(device T* out [[buffer(0)]], device const T* a [[buffer(1)]], device const T* b [[buffer(2)]],
                          constant CrossParams& p [[buffer(3)]], uint2 gid [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  const long at = long(gid.y) * p.line + long(gid.x) * p.pitch;
  const C ax = C(a[at]), ay = C(a[at + p.step]), az = C(a[at + 2 * p.step]);
  const C bx = C(b[at]), by = C(b[at + p.step]), bz = C(b[at + 2 * p.step]);
  out[at] = cross_part<T>(ay, bz, az, by);
  out[at + p.step] = cross_part<T>(az, bx, ax, bz);
  out[at + 2 * p.step] = cross_part<T>(ax, by, ay, bx);
}

#define MPSX_CROSS(T, TAG, ...) MPSX_KERNEL("cross_" #TAG, cross_product<T>)
MPSX_FOR_REAL(MPSX_CROSS)
MPSX_CROSS(float2, c64)
