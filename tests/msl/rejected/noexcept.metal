#include <metal_stdlib>
using namespace metal;
inline float one() noexcept { return 1; }
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  const bool sure = noexcept(one());
//                  ^ 'noexcept' is not supported
  out[i] = sure;
}
