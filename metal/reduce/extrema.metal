// The reductions in reduce.def that return an element, a bool or a count.
#include "reduce/reduction.h"

// First reduces a vector of floats, then converts only the extremum to a key.
template <typename Key>
struct KeyReduce {
  template <uint N> static int of(thread const float* v, float) { return best_key<Key, N>(v); }
};
template <typename C> struct amax_reduction;
template <typename C> struct amin_reduction;
template <> struct VectorReduce<amax_reduction<float>> : KeyReduce<MaxKey> {};
template <> struct VectorReduce<amin_reduction<float>> : KeyReduce<MinKey> {};

#define MPSX_KERNELS_ALL_SAME(NAME) MPSX_FOR_ALL(MPSX_RESULT_IS_T, NAME)
#define MPSX_KERNELS_ALL_BOOL(NAME) MPSX_FOR_ALL(MPSX_RESULT_IS_BOOL, NAME)
#define MPSX_KERNELS_ALL_LONG(NAME) MPSX_FOR_ALL(MPSX_RESULT_IS_LONG, NAME)
#define MPSX_KERNELS_ALL_SUM(NAME)
#define MPSX_KERNELS_FLOAT_SUM(NAME)
#include "reduce/reduce.def"
