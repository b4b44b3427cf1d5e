#include <metal_stdlib>
using namespace metal;
template <typename T, int N>
kernel void f(device T* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  constexpr int size = N * N;
  threadgroup T a[size];
//              ^ threadgroup memory of kernel 'f': 65536 bytes
  a[i] = T(1);
  out[i] = a[i];
}
template [[host_name("f_64")]] kernel decltype(f<float, 64>) f<float, 64>;
template [[host_name("f_128")]] kernel decltype(f<float, 128>) f<float, 128>;
