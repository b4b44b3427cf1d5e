#include <metal_stdlib>
using namespace metal;
kernel void f(device uint* a [[buffer(0)]]) {
  atomic_uint n;
  a[0] = atomic_fetch_add_explicit(&n, 1u, memory_order_relaxed);
//       ^ no matching function for call to 'atomic_fetch_add_explicit'
}
