#include <metal_stdlib>
using namespace metal;
kernel void f(device float* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {
  threadgroup float a[8192];
  threadgroup float b[1];
//                  ^ threadgroup memory of kernel 'f': 32772 bytes, and at most 32768 are available
  a[i] = b[0] = 1;
  out[i] = a[i];
}
