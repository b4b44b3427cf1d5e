// Instantiates every operator of binary.def.
#include "elementwise/fused.h"
#include "elementwise/kernels.h"

// Shifting by at least the bit width yields 0, and a negative count is treated as a large one. Shift in two steps: LLVM
// would merge a single shift and its comparison into an NVIDIA shift that reads only 32 bits of a 64-bit count.
template <typename T>
inline T shift_left(T a, T b) {
  const bool inside = b >= T(0) && b < T(8 * sizeof(T));
  const T by = inside ? b : T(0), first = by / T(2);
  return inside ? T((unsigned_of_t<T>(a) << first) << (by - first)) : T(0);
}
template <typename T>
inline T shift_right(T a, T b) {
  constexpr T most = T(8 * sizeof(T) - 1);
  const bool inside = b >= T(0) && b <= most;
  return T(-1) > T(0) && !inside ? T(0) : T(a >> (inside ? b : most));
}

// renorm: scales an element x of a vector to limit the vector's norm to s.a. PyTorch adds 1e-7 to avoid dividing by
// zero.
struct shortened_op {
  template <typename C>
  static C apply(C x, C norm, Scalars<C> s) { return norm > s.a ? x * (s.a / (norm + C(1e-7f))) : x; }
};
MPSX_BINARY_KERNELS_SWAPS(float, f32, shortened, SAME)

#define MPSX_BINARY(NAME, OVERLOAD, TYPES, RESULT, PROMOTION, ORDER, NUMBER, ...) \
  struct NAME##_op {                                                           \
    template <typename C>                                                      \
    static auto apply(C a, C b, Scalars<C> s) { return (void)s, __VA_ARGS__; } \
  };                                                                           \
  MPSX_FOR_##TYPES(MPSX_BINARY_KERNELS_##ORDER, NAME, RESULT)
#include "elementwise/binary.def"
