#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = std::max(1.0f, out[i]);
//         ^ 'std::max': the C++ standard library is not available
}
