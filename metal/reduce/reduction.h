// Instantiates the kernels for the rows of reduce.def. To keep compile times short, they are spread over several files.
// Each file that includes this one defines MPSX_KERNELS_<types>_<result> for the combinations that it instantiates. The
// other macros are empty.
#pragma once

#include "lib/math.h"
#include "reduce/kernels.h"
#include "reduce/keys.h"

// Integer sums wrap around, so their accumulators are unsigned.
template <typename C> struct value_sum { typedef ulong type; };
template <> struct value_sum<float> { typedef float type; };
template <typename C> using accumulator_VALUE = typename value_sum<C>::type;
template <typename C> using accumulator_KEY = key_of_t<C>;
template <typename C> using accumulator_INT = int;
template <typename C> using accumulator_LONG = long;

#define MPSX_REDUCE_KERNELS(T, NAMES, NAME, O)                                                     \
  MPSX_KERNEL(#NAME "_rows_" NAMES, reduce_rows<T, O, NAME##_reduction<compute_t<T>>>)             \
  MPSX_KERNEL(#NAME "_columns_" NAMES, reduce_columns<T, O, NAME##_reduction<compute_t<T>>>)       \
  MPSX_KERNEL(#NAME "_merge_" NAMES, reduce_merge<T, O, NAME##_reduction<compute_t<T>>>)
#define MPSX_RESULT_IS_T(T, TAG, NAME) MPSX_REDUCE_KERNELS(T, #TAG, NAME, T)
#define MPSX_RESULT_IS_LONG(T, TAG, NAME) MPSX_REDUCE_KERNELS(T, #TAG, NAME, long)
#define MPSX_RESULT_IS_BOOL(T, TAG, NAME) MPSX_REDUCE_KERNELS(T, #TAG, NAME, bool)
#define MPSX_RESULT_WIDENS(NAME)                      \
  MPSX_REDUCE_KERNELS(half, "f16_f32", NAME, float)   \
  MPSX_REDUCE_KERNELS(bfloat, "bf16_f32", NAME, float)
#define MPSX_REDUCTION(NAME, TYPES, RESULT, ACCUMULATOR, COMBINE, ELEMENT, ...)                     \
  template <typename C>                                                                             \
  struct NAME##_reduction {                                                                         \
    typedef accumulator_##ACCUMULATOR<C> Acc;                                                       \
    typedef COMBINE Combine;                                                                        \
    static Acc map(C x, float p) { return (void)p, Acc(ELEMENT); }                                  \
    static auto finish(Acc v, constant ReduceParams& q) { return (void)q, __VA_ARGS__; }            \
  };                                                                                                \
  MPSX_KERNELS_##TYPES##_##RESULT(NAME)
