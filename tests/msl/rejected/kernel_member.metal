#include <metal_stdlib>
using namespace metal;
struct S {
  kernel void f(device float* out [[buffer(0)]]) { out[0] = 1; }
//            ^ cannot be a member function
};
