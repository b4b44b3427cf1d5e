// Norms of the tensors in a list. First, each threadgroup reduces a chunk to one value in buffer 29. Then a second
// launch reduces each tensor's values in a fixed order. List 0 holds the one-element results, and list 1 the tensors.
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "lib/float_order.h"
#include "optim/lists.h"

struct NormOne {
  static float term(float x) { return fabs(x); }
  static float finish(float sum) { return sum; }
};
struct NormTwo {
  static float term(float x) { return x * x; }
  static float finish(float sum) { return precise::sqrt(sum); }
};

template <typename T, typename Norm>
kernel void foreach_norm_chunk(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const ListChunk chunk = list_chunk(p, g.group.x);
  device const T* x = MPSX_LIST(const T, 1);
  float sum = 0;
  MPSX_REDUCE(+ : sum)
  for (uint i = g.index; i < chunk.count; i += g.count) sum += Norm::term(float(x[i]));
  sum = tg_sum(sum, scratch, g);
  if (g.index == 0) reinterpret_cast<device float*>(b29)[g.group.x] = sum;
}

template <typename T, typename Norm>
kernel void foreach_norm_finish(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float scratch[kScratch];
  const uint tensor = g.group.x, first = tensor == 0 ? 0 : p.end[tensor - 1];
  device const float* partial = reinterpret_cast<device const float*>(b29);
  float sum = 0;
  MPSX_REDUCE(+ : sum)
  for (uint i = first + g.index; i < p.end[tensor]; i += g.count) sum += partial[i];
  sum = tg_sum(sum, scratch, g);
  if (g.index == 0) *reinterpret_cast<device T*>(pick_buffer(tensor, MPSX_LIST_NAMES)) = T(Norm::finish(sum));
}

// Computes the largest magnitude, or NaN if any element is NaN.
template <typename T>
kernel void foreach_norm_inf_chunk(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup int scratch[kScratch];
  const ListChunk chunk = list_chunk(p, g.group.x);
  device const T* x = MPSX_LIST(const T, 1);
  int greatest = 0;
  MPSX_REDUCE(max : greatest)
  for (uint i = g.index; i < chunk.count; i += g.count) greatest = max(greatest, ordered_max(fabs(float(x[i]))));
  greatest = tg_max(greatest, scratch, g);
  if (g.index == 0) reinterpret_cast<device int*>(b29)[g.group.x] = greatest;
}

template <typename T>
kernel void foreach_norm_inf_finish(MPSX_LIST_BUFFERS, constant ListParams& p [[buffer(30)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup int scratch[kScratch];
  const uint tensor = g.group.x, first = tensor == 0 ? 0 : p.end[tensor - 1];
  device const int* partial = reinterpret_cast<device const int*>(b29);
  int greatest = 0;
  MPSX_REDUCE(max : greatest)
  for (uint i = first + g.index; i < p.end[tensor]; i += g.count) greatest = max(greatest, partial[i]);
  greatest = tg_max(greatest, scratch, g);
  if (g.index == 0) *reinterpret_cast<device T*>(pick_buffer(tensor, MPSX_LIST_NAMES)) = T(value_of_max(greatest));
}

#define NORM_KERNELS(T, TAG, ...)                                               \
  MPSX_KERNEL("foreach_norm_one_chunk_" #TAG, foreach_norm_chunk<T, NormOne>)   \
  MPSX_KERNEL("foreach_norm_one_finish_" #TAG, foreach_norm_finish<T, NormOne>) \
  MPSX_KERNEL("foreach_norm_two_chunk_" #TAG, foreach_norm_chunk<T, NormTwo>)   \
  MPSX_KERNEL("foreach_norm_two_finish_" #TAG, foreach_norm_finish<T, NormTwo>) \
  MPSX_KERNEL("foreach_norm_inf_chunk_" #TAG, foreach_norm_inf_chunk<T>)        \
  MPSX_KERNEL("foreach_norm_inf_finish_" #TAG, foreach_norm_inf_finish<T>)
MPSX_FOR_FLOAT(NORM_KERNELS)
