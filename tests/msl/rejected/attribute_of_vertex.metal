#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              uint i [[vertex_id]]) {
//                     ^ invalid 'vertex_id' attribute for input declaration in a kernel function
  a[i] = 1;
}
