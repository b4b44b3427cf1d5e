// Every SIMD and quad function that has a value argument, for each type. `fill` is passed to fill_up and fill_down.
#include <metal_stdlib>
using namespace metal;

#define FUNCTION(NAME, EXPRESSION)                                                                                  \
  template <typename T>                                                                                             \
  kernel void NAME(device T* out [[buffer(0)]], device const T* values [[buffer(1)]],                               \
                   device const T* fills [[buffer(2)]], constant uint& period [[buffer(3)]],                        \
                   uint i [[thread_position_in_grid]], uint lane [[thread_index_in_simdgroup]]) {                   \
    const T v = values[i], fill = fills[i];                                                                         \
    (void)fill;                                                                                                     \
    if (lane % period != 1u % period) return;                                                                       \
    out[i] = EXPRESSION;                                                                                            \
  }
#define TYPE(NAME, T) template [[host_name(#NAME "_" #T)]] kernel decltype(NAME<T>) NAME<T>;
#define INTEGERS(NAME) TYPE(NAME, int) TYPE(NAME, ushort) TYPE(NAME, char) TYPE(NAME, int3)
#define NUMBERS(NAME) INTEGERS(NAME) TYPE(NAME, float) TYPE(NAME, half) TYPE(NAME, bfloat) TYPE(NAME, float4)

#define BOTH(NAME, ARGUMENTS, TYPES)               \
  FUNCTION(simd_##NAME, metal::simd_##NAME ARGUMENTS)     \
  TYPES(simd_##NAME)                               \
  FUNCTION(quad_##NAME, metal::quad_##NAME ARGUMENTS)     \
  TYPES(quad_##NAME)
BOTH(sum, (v), NUMBERS)
BOTH(product, (v), NUMBERS)
BOTH(max, (v), NUMBERS)
BOTH(min, (v), NUMBERS)
BOTH(and, (v), INTEGERS)
BOTH(or, (v), INTEGERS)
BOTH(xor, (v), INTEGERS)
BOTH(prefix_inclusive_sum, (v), NUMBERS)
BOTH(prefix_exclusive_sum, (v), NUMBERS)
BOTH(prefix_inclusive_product, (v), NUMBERS)
BOTH(prefix_exclusive_product, (v), NUMBERS)
BOTH(broadcast_first, (v), NUMBERS)
BOTH(broadcast, (v, 1), NUMBERS)
BOTH(shuffle, (v, ushort(lane % 4 == 3 ? 1 : 2)), NUMBERS)
BOTH(shuffle_xor, (v, 2), NUMBERS)
BOTH(shuffle_up, (v, 1), NUMBERS)
BOTH(shuffle_down, (v, 1), NUMBERS)
BOTH(shuffle_rotate_up, (v, 3), NUMBERS)
BOTH(shuffle_rotate_down, (v, 3), NUMBERS)
BOTH(shuffle_and_fill_up, (v, fill, 3), NUMBERS)
BOTH(shuffle_and_fill_down, (v, fill, 3), NUMBERS)
FUNCTION(simd_fill_up_8, metal::simd_shuffle_and_fill_up(v, fill, 3, 8))
NUMBERS(simd_fill_up_8)
FUNCTION(simd_fill_down_8, metal::simd_shuffle_and_fill_down(v, fill, 3, 8))
NUMBERS(simd_fill_down_8)
FUNCTION(quad_fill_up_2, metal::quad_shuffle_and_fill_up(v, fill, 1, 2))
NUMBERS(quad_fill_up_2)
FUNCTION(quad_fill_down_2, metal::quad_shuffle_and_fill_down(v, fill, 1, 2))
NUMBERS(quad_fill_down_2)
