#include <metal_stdlib>
using namespace metal;
kernel void f(device atomic_uint* a [[buffer(0)]]) {
  atomic_fetch_add_explicit(a, 1u, memory_order_seq_cst);
//                                 ^ atomic_fetch_add_explicit: expected memory_order_relaxed
}
