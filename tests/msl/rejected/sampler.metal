#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[buffer(0)]],
              sampler s [[sampler(0)]]) {
//            ^ sampler is not supported: kernels take buffers
  a[0] = 1;
}
