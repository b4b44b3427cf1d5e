// The reductions' loops where a threadgroup is one thread.
#pragma once

// The sum, product or maximum of a block, one loop for every way to combine, since a loop hint names the operator.
template <typename Combine, typename Op, typename T> struct RowLoop;
#define MPSX_ROW_LOOP(COMBINE, CLAUSE, STEP)                              \
  template <typename Op, typename T>                                      \
  struct RowLoop<COMBINE, Op, T> {                                        \
    typedef typename Op::Acc A;                                           \
    static A dense(device const T* x, uint n, float p) {                  \
      typedef compute_t<T> C;                                             \
      A s = Identity<COMBINE, A>::value();                                \
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

// Of complex numbers there are sums alone. As two floats they are loaded side by side.
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
inline void fold_run(device const T* x, uint, uint n, float p, Team, thread typename Op::Acc& total,
                     thread typename Op::Acc& low) {
  typedef typename Op::Combine Combine;
  for (ulong b = 0; b < n; b += kReduceBlock)
    Fold<Combine>::add(total, low,
                       RowLoop<Combine, Op, T>::dense(x + b, uint(smaller(n - b, kReduceBlock)), p));
}

// Elements that are not neighbours make no vector: they are added up as the lines of one column are.
template <typename Op, typename T>
struct StridedElements {
  struct Line {
    device const T* x;
    float p;
    typename Op::Acc one(uint, uint) const { return Op::map(compute_t<T>(*x), p); }
  };
  device const T* x;
  long stride;
  float p;
  Line line(ulong i) const { return {x + long(i) * stride, p}; }
};
template <typename Op, typename T>
inline void fold_strided(device const T* x, long stride, ulong n, float p, Team, thread typename Op::Acc& total,
                         thread typename Op::Acc& low) {
  const StridedElements<Op, T> lines = {x, stride, p};
  Fold<typename Op::Combine>::add(total, low, fold_column<typename Op::Combine, typename Op::Acc>(lines, 0, n, 0, 0));
}
