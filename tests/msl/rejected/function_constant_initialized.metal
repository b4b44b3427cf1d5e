#include <metal_stdlib>
using namespace metal;
constant bool flag [[function_constant(0)]] = true;
//            ^ function constant 'flag' cannot be initialized
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = flag ? 1 : 0;
}
