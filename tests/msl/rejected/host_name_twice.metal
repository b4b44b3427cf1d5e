#include <metal_stdlib>
using namespace metal;
template <typename T>
kernel void f(device T* out [[buffer(0)]]) {
  out[0] = T(1);
}
template [[host_name("f_f32")]] kernel decltype(f<float>) f<float>;
template [[host_name("f_f32")]] kernel decltype(f<int>) f<int>;
//         ^ host_name("f_f32") is already used
