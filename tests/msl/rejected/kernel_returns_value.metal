#include <metal_stdlib>
using namespace metal;
kernel int f(device float* out [[buffer(0)]]) {
//         ^ invalid return type 'int' for kernel function 'f'
  return 0;
}
