#include <metal_stdlib>
using namespace metal;
constant bool a [[function_constant(0)]];
constant bool b [[function_constant(0)]];
//                ^ function constant 0 is 'a' already
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = a && b;
}
