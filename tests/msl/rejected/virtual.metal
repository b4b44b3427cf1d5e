#include <metal_stdlib>
using namespace metal;
struct Shape {
  virtual float area() const;
//^ 'virtual' is not supported in Metal
};
kernel void f(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  out[i] = 1;
}
