#include <metal_stdlib>
using namespace metal;
template <typename T>
kernel void f(device T* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup T s[16];
  thread T* p = s;
//          ^ cannot initialize a variable of type 'float *' with an lvalue of type 'threadgroup float[16]' (section 4), in f<float>
  out[i] = p[i];
}
template [[host_name("f_f32")]] kernel decltype(f<float>) f<float>;
