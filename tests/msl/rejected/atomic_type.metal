#include <metal_stdlib>
using namespace metal;
kernel void f(device atomic<short>* a [[buffer(0)]]) {
//                   ^ 'atomic<short>': expected int, uint, bool, ulong or float
  atomic_fetch_add_explicit(a, 1, memory_order_relaxed);
}
