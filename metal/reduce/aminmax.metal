// The smallest and the largest element, in one pass. Of many elements each threadgroup finds its own, and then one of them
// those of what the others found. A NaN is both.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/keys.h"
#include "reduce/params.h"

// Neighbours that a thread looks at side by side: a CPU's compiler makes vectors of a loop over them, and none of one that
// reduces to two results.
enum : uint { kLanes = MPSX_VECTOR_BYTES ? 1 : 64 };

// A key as wide as narrow integers are, so that a vector holds more of them; made a key again, it gives the element.
template <typename T> struct lane_key { typedef key_of_t<compute_t<T>> type; };
template <> struct lane_key<char> { typedef char type; };
template <> struct lane_key<uchar> { typedef uchar type; };
template <> struct lane_key<short> { typedef short type; };

template <typename T>
kernel void aminmax(device T* low [[buffer(0)]], device T* high [[buffer(1)]], device const T* in [[buffer(2)]],
                    constant AminmaxParams& p [[buffer(3)]], MPSX_GROUP_PARAMETERS) {
  typedef compute_t<T> C;
  typedef key_of_t<C> K;
  typedef typename lane_key<T>::type L;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup K scratch[kScratch];
  const ulong begin = ulong(g.group.x) * p.each, left = p.count - begin;
  device const T* x = in + begin;
  const uint n = uint(left < p.each ? left : p.each);
  L low_lanes[kLanes], high_lanes[kLanes];
  for (uint j = 0; j < kLanes; ++j) {
    low_lanes[j] = L(MinKey::of(C(x[0]), 0.0f));
    high_lanes[j] = L(MaxKey::of(C(x[0]), 0.0f));
  }
  uint i = g.index * kLanes;
  for (; i + kLanes <= n; i += g.count * kLanes) {
    MPSX_VECTORIZE
    for (uint j = 0; j < kLanes; ++j) {
      const L a = L(MinKey::of(C(x[i + j]), 0.0f)), b = L(MaxKey::of(C(x[i + j]), 0.0f));
      low_lanes[j] = low_lanes[j] < a ? a : low_lanes[j];
      high_lanes[j] = high_lanes[j] < b ? b : high_lanes[j];
    }
  }
  for (; i < n; ++i) {  // what fills no lanes, of one thread
    const L a = L(MinKey::of(C(x[i]), 0.0f)), b = L(MaxKey::of(C(x[i]), 0.0f));
    low_lanes[0] = low_lanes[0] < a ? a : low_lanes[0];
    high_lanes[0] = high_lanes[0] < b ? b : high_lanes[0];
  }
  L low_lane = low_lanes[0], high_lane = high_lanes[0];
  for (uint j = 1; j < kLanes; ++j) {
    low_lane = low_lane < low_lanes[j] ? low_lanes[j] : low_lane;
    high_lane = high_lane < high_lanes[j] ? high_lanes[j] : high_lane;
  }
  const K least = tg_max(K(low_lane), scratch, g), most = tg_max(K(high_lane), scratch, g);
  if (g.index != 0) return;
  low[g.group.x] = T(MinKey::Back<C>::value(least));
  high[g.group.x] = T(MaxKey::Back<C>::value(most));
}

#define AMINMAX(T, TAG, ...) MPSX_KERNEL("aminmax_" #TAG, aminmax<T>)
MPSX_FOR_ALL(AMINMAX, )
