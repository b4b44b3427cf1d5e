#include <metal_stdlib>
using namespace metal;
struct [[packed_tightly]] S {
//       ^ unknown attribute 'packed_tightly' ignored
  float x [[unit(1)]];
//          ^ unknown attribute 'unit' ignored
  float get() const device [[hot]] { return x; }
//                           ^ unknown attribute 'hot' ignored
};
enum class [[exhaustive]] Kind { one, two };
//           ^ unknown attribute 'exhaustive' ignored
constant int steps [[tunable]] = 4;
//                   ^ unknown attribute 'tunable' ignored
inline float lanes(float x [[in_register]]) [[collective]] { return simd_sum(x); }
//                           ^ unknown attribute 'in_register' ignored
//                                            ^ unknown attribute 'collective' ignored
kernel void f [[entry_point]] (device float* x [[buffer(0), access(read_write)]], device S* s [[buffer(1)]] [[extra]],
//              ^ unknown attribute 'entry_point' ignored
//                                                          ^ unknown attribute 'access' ignored
//                                                                                                            ^ unknown attribute 'extra' ignored
              uint i [[thread_position_in_grid]]) [[simd_group_size(32)]] {
//                                                  ^ unknown attribute 'simd_group_size' ignored
  [[hot_loop]] for (int k [[counter]] = 0; k < steps; ++k) x[i] += s[i].get();
//  ^ unknown attribute 'hot_loop' ignored
//                          ^ unknown attribute 'counter' ignored
  x[i] = lanes(x[i]);
}
template <typename T>
[[generic]] kernel void g(device T* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { x[i] += T(1); }
//^ unknown attribute 'generic' ignored
template [[host_name("g_float"), tuned]] kernel void g<float>(device float*, uint);
//                               ^ unknown attribute 'tuned' ignored
