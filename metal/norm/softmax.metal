// softmax, log_softmax and their gradients along contiguous rows.
#include "lib/instantiate.h"
#include "lib/row.h"
#include "norm/softmax.h"

// Returns exp(x - row_max) with the precision of O.
template <typename O>
struct ExpSubMax {
  float row_max;
  float at(float x) const { return exp_nonpositive_as<O>(x - row_max); }
};

// T is the input type, and O the output type. As in PyTorch, a row that contains a NaN or only -inf yields NaN: the
// maximum ignores NaN, but the sum propagates it.
template <typename T, typename O>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void softmax_rows(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                         constant RowShape& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const RowGroup group = row_group(p.rows, p.row_threads, g);
  if (group.row >= p.rows) return;
  const ulong start = ulong(group.row) * p.size;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p, group);
  const ExpSubMax<O> f = {rg_reduce<CombineMax>(row.thread_max(), scratch, group, g)};
  const float row_sum = rg_reduce<CombineSum>(row.map_sum(f), scratch, group, g);
  row.store_scaled(out + start, f, 1.0f / row_sum);
}

struct LogSoftmaxEpilogue {
  float row_max, log_sum;
  float at(float x, float) const { return x - row_max - log_sum; }
};
template <typename T, typename O>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void log_softmax_rows(device O* out [[buffer(0)]], device const T* in [[buffer(1)]],
                             constant RowShape& p [[buffer(2)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const RowGroup group = row_group(p.rows, p.row_threads, g);
  if (group.row >= p.rows) return;
  const ulong start = ulong(group.row) * p.size;
  RegisterRow<Loader<T>> row;
  row.open({in + start}, p, group);
  const float row_max = rg_reduce<CombineMax>(row.thread_max(), scratch, group, g);
  const float row_sum = rg_reduce<CombineSum>(row.sum(ExpSubMax<O>{row_max}), scratch, group, g);
  row.store(out + start, NoAux(), LogSoftmaxEpilogue{row_max, precise::log(row_sum)});
}

// Y is the type of the result and its gradient, and O the type of the input gradient. Term maps a pair to a term of the
// row's sum. Gradient computes dx from that sum.
template <typename Y, typename O, typename Term, typename Gradient>
[[max_total_threads_per_threadgroup(kRowThreads)]]
kernel void softmax_backward_rows(device O* out [[buffer(0)]], device const Y* grad [[buffer(1)]],
                                  device const Y* result [[buffer(2)]], constant RowShape& p [[buffer(3)]],
                                  MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const RowGroup group = row_group(p.rows, p.row_threads, g);
  if (group.row >= p.rows) return;
  const ulong start = ulong(group.row) * p.size;
  RegisterRow<PairLoader<Y>> row;
  row.open({grad + start, result + start}, p, group);
  const float sum = rg_reduce<CombineSum>(row.sum(Term()), scratch, group, g);
  row.store(out + start, NoAux(), Gradient{sum});
}

// T is the type of the input, and O the type of the result. The backward kernels read type O and write type T.
#define MPSX_SOFTMAX(TAGS, GRADIENT_TAGS, T, O)                               \
  MPSX_KERNEL("softmax_rows_" TAGS, softmax_rows<T, O>)                       \
  MPSX_KERNEL("log_softmax_rows_" TAGS, log_softmax_rows<T, O>)               \
  MPSX_KERNEL("softmax_backward_rows_" GRADIENT_TAGS,                         \
              softmax_backward_rows<O, T, GradTimesResult, SoftmaxGradient>)  \
  MPSX_KERNEL("log_softmax_backward_rows_" GRADIENT_TAGS,                     \
              softmax_backward_rows<O, T, ScaledGrad, LogSoftmaxGradient<T>>)
MPSX_SOFTMAX("f32", "f32", float, float)
MPSX_SOFTMAX("f16", "f16", half, half)
MPSX_SOFTMAX("bf16", "bf16", bfloat, bfloat)
MPSX_SOFTMAX("f16_f32", "f32_f16", half, float)
MPSX_SOFTMAX("bf16_f32", "f32_bf16", bfloat, float)
