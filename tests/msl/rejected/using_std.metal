#include <metal_stdlib>
using namespace metal;
  using namespace std;
//                ^ namespace 'std' is not available
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1;
}
