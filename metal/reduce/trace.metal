// The sum of a matrix diagonal.
#include "lib/collective.h"
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/params.h"

// Floating-point types accumulate in float, integers in long.
template <typename C> struct TraceSum { typedef long type; };
template <> struct TraceSum<float> { typedef float type; };

template <typename T, typename O>
kernel void trace(device O* out [[buffer(0)]], device const T* x [[buffer(1)]], constant TraceParams& p [[buffer(2)]],
                  MPSX_GROUP_PARAMETERS) {
  typedef compute_t<T> C;
  typedef typename TraceSum<C>::type A;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A scratch[kScratch];
  const long step = p.step;
  A sum = A(0);
  MPSX_REDUCE(+ : sum)
  for (uint i = g.index; i < p.count; i += g.count) sum += A(C(x[long(i) * step]));
  sum = tg_reduce<CombineSum>(sum, scratch, g);
  if (g.index == 0) *out = O(sum);
}

#define TRACE(T, TAG, ...) MPSX_KERNEL("trace_" #TAG, trace<T, T>)
#define TRACE_LONG(T, TAG, ...) MPSX_KERNEL("trace_" #TAG, trace<T, long>)
MPSX_FOR_FLOAT(TRACE, )
MPSX_FOR_INT(TRACE_LONG, )
