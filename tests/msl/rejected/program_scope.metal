#include <metal_stdlib>
using namespace metal;
const float scale = 2.0f;
//          ^ program scope variable must reside in constant address space: 'scale'
constexpr int count = 4;
//            ^ 'count'
int calls;
//  ^ 'calls'
threadgroup float shared_memory[32];
//                ^ 'shared_memory'
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = scale;
}
