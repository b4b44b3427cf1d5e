#include <metal_stdlib>
using namespace metal;
inline float one() noexcept { return 1; }
//                 ^ 'noexcept' is not supported
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = one();
}
