#include <metal_stdlib>
#include <metal_raytracing>
using namespace metal;
using namespace metal::raytracing;
//                     ^ ray tracing is not supported

kernel void nearest(device float* out [[buffer(0)]], uint i [[thread_position_in_grid]]) {
  metal::raytracing::ray r;
//       ^ ray tracing is not supported
  out[i] = r.max_distance;
}
