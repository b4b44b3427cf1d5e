// Reduction loops for the host driver, where a threadgroup is one thread.
#pragma once

// Reduces a block. There is a separate loop for each operator, because the loop hint contains the operator.
template <typename Combine, typename Op, typename T> struct RowLoop;
#define MPSX_ROW_LOOP(COMBINE, CLAUSE, STEP)                              \
  template <typename Op, typename T>                                      \
  struct RowLoop<COMBINE, Op, T> {                                        \
    typedef typename Op::Acc A;                                           \
    static A dense(device const T* x, uint n, float p) {                  \
      typedef compute_t<T> C;                                             \
      A s = Init<COMBINE, A>::value();                                \
      MPSX_REDUCE(CLAUSE) for (uint i = 0; i < n; ++i) {                  \
        const A v = Op::map(C(x[i]), p);                                  \
        STEP;                                                             \
      }                                                                   \
      return s;                                                           \
    }                                                                     \
  };
MPSX_ROW_LOOP(CombineSum, + : s, s += v)
MPSX_ROW_LOOP(CombineProduct, * : s, s *= v)
MPSX_ROW_LOOP(CombineMax, max : s, s = s < v ? v : s)

// Complex reductions are always sums. Complex numbers are loaded as floats, so that the compiler vectorizes the loop.
template <typename Combine, typename Op>
struct RowLoop<Combine, Op, float2> {
  static float2 dense(device const float2* x, uint n, float) {
    device const float* parts = (device const float*)x;
    float re = 0.0f, im = 0.0f;
    MPSX_REDUCE(+ : re, im) for (uint i = 0; i < n; ++i) {
      re += parts[2 * i];
      im += parts[2 * i + 1];
    }
    return float2(re, im);
  }
};

template <typename Op, typename T>
inline void accumulate_contiguous(device const T* x, uint, uint n, float p, RowGroup, thread typename Op::Acc& total,
                                  thread typename Op::Acc& low) {
  typedef typename Op::Combine Combine;
  for (ulong b = 0; b < n; b += kReduceBlock)
    Accumulator<Combine>::accumulate(total, low,
                                     RowLoop<Combine, Op, T>::dense(x + b, uint(min64(n - b, kReduceBlock)), p));
}

// The compiler does not vectorize over strided elements, so they are reduced like the rows of a matrix with one column.
template <typename Op, typename T>
struct StridedElements {
  struct Row {
    device const T* x;
    float p;
    typename Op::Acc scalar(uint, uint) const { return Op::map(compute_t<T>(*x), p); }
  };
  device const T* x;
  long stride;
  float p;
  Row row(ulong i) const { return {x + long(i) * stride, p}; }
};
template <typename Op, typename T>
inline void accumulate_strided(device const T* x, long stride, ulong n, float p, RowGroup,
                               thread typename Op::Acc& total, thread typename Op::Acc& low) {
  const StridedElements<Op, T> elements = {x, stride, p};
  typedef typename Op::Combine Combine;
  Accumulator<Combine>::accumulate(total, low, reduce_column<Combine, typename Op::Acc>(elements, 0, n, 0, 0));
}
