#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              texture2d<float> t [[texture(0)]]) {
//            ^ texture2d is not supported: kernels take buffers
  a[0] = 1;
}
