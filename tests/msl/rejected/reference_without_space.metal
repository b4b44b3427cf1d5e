#include <metal_stdlib>
using namespace metal;
struct P {
  int n;
};
void grow(P& p) { p.n += 1; }
//        ^ reference type must have explicit address space qualifier
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  P p = {1};
  grow(p);
  out[i] = p.n;
}
