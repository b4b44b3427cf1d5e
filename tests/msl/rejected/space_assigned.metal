#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], constant float* in [[buffer(1)]]) {
  device float* p = out;
  p = in;
//    ^ assigning 'constant float *' to 'device float *' changes address space
  out[0] = p[0];
}
