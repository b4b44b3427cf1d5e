#include <metal_stdlib>
using namespace metal;
struct Tile {
  static constexpr int width = 4;
//                     ^ program scope variable must reside in constant address space: 'width'
};
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = Tile::width;
}
