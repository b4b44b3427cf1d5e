#include <metal_stdlib>
using namespace metal;
struct P {
  int n;
};
kernel void f(device float* out [[buffer(0)]], constant P& p [[buffer(1)]]) {
  p.n = 3;
//    ^ read-only
  out[0] = p.n;
}
