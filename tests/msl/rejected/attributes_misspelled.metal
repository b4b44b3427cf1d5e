#include <metal_stdlib>
using namespace metal;
kernel void f(device float* a [[bufer(0)]], uint i [[thread_position_in_gird]]) { a[i] = 1; }
//                              ^ unknown attribute 'bufer'; did you mean 'buffer'?
//                                                   ^ unknown attribute 'thread_position_in_gird'; did you mean 'thread_position_in_grid'?
kernel void g(device float* a [[buffers(0)]], uint i [[threadposition_in_grid]]) { a[i] = 1; }
//                              ^ unknown attribute 'buffers'; did you mean 'buffer'?
//                                                     ^ unknown attribute 'threadposition_in_grid'; did you mean 'thread_position_in_grid'?
[[host_nam("k")]] kernel void h(device float* a [[buffer(0)]]) [[max_total_thread_per_threadgroup(32)]] { a[0] = 1; }
//^ unknown attribute 'host_nam'; did you mean 'host_name'?
//                                                               ^ unknown attribute 'max_total_thread_per_threadgroup'; did you mean 'max_total_threads_per_threadgroup'?
