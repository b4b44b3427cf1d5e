#include <metal_stdlib>
using namespace metal;
struct View {
  device float* data;
};
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  threadgroup float s[4];
  View v;
  v.data = s;
//         ^ assigning to 'device float *' from incompatible type 'threadgroup float
  out[i] = v.data[0];
}
