// Sums and means of complex numbers.
#include "reduce/complex_sums.h"

#include "reduce/kernels.h"

struct complex_sum_reduction {
  typedef float2 Acc;
  typedef CombineComplexSum Combine;
  static float2 map(float2 x, float) { return x; }
  static float2 finish(float2 v, constant ReduceParams&) { return v; }
};
struct complex_mean_reduction {
  typedef float2 Acc;
  typedef CombineComplexSum Combine;
  static float2 map(float2 x, float) { return x; }
  static float2 finish(float2 v, constant ReduceParams& q) { return v / q.count; }
};

#define MPSX_COMPLEX_REDUCTION(NAME)                                                          \
  MPSX_KERNEL(#NAME "_rows_c64", reduce_rows<float2, float2, complex_##NAME##_reduction>)     \
  MPSX_KERNEL(#NAME "_columns_c64", reduce_columns<float2, float2, complex_##NAME##_reduction>) \
  MPSX_KERNEL(#NAME "_merge_c64", reduce_merge<float2, float2, complex_##NAME##_reduction>)
MPSX_COMPLEX_REDUCTION(sum)
MPSX_COMPLEX_REDUCTION(mean)
