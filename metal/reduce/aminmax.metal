// Minimum and maximum of all elements, in one pass. If any element is NaN, both results are NaN. If there are many
// elements, each threadgroup reduces some of them, and a second launch reduces the partial results.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/keys.h"
#include "reduce/params.h"

template <typename T>
kernel void aminmax(device T* low [[buffer(0)]], device T* high [[buffer(1)]], device const T* in [[buffer(2)]],
                    constant AminmaxParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  typedef compute_t<T> C;
  typedef key_of_t<C> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup K scratch[kScratch];
  const ulong begin = ulong(g.group.x) * p.each, left = p.count - begin;
  device const T* x = in + begin;
  const uint n = uint(left < p.each ? left : p.each);
  K min_key = MinKey::of(C(x[0]), 0.0f), max_key = MaxKey::of(C(x[0]), 0.0f);
  MPSX_REDUCE(max : min_key, max_key)
  for (uint i = g.index; i < n; i += g.count) {
    const K a = MinKey::of(C(x[i]), 0.0f), b = MaxKey::of(C(x[i]), 0.0f);
    min_key = min_key < a ? a : min_key;
    max_key = max_key < b ? b : max_key;
  }
  min_key = tg_max(min_key, scratch, g), max_key = tg_max(max_key, scratch, g);
  if (g.index != 0) return;
  low[g.group.x] = T(MinKey::Decode<C>::value(min_key));
  high[g.group.x] = T(MaxKey::Decode<C>::value(max_key));
}

#define AMINMAX(T, TAG, ...) MPSX_KERNEL("aminmax_" #TAG, aminmax<T>)
MPSX_FOR_ALL(AMINMAX, )
