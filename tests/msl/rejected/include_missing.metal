#include <metal_stdlib>
using namespace metal;
#include "not_here.h"
//       ^ not_here.h
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1;
}
