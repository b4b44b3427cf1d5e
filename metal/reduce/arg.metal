// The largest and smallest elements with their places: argmax, argmin, max and min along a dimension. A NaN wins; of
// equal elements the first.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/keys.h"
#include "reduce/loops.h"

// -0 and 0 are equal, so the first of them is the one wanted.
template <typename Key, typename C> inline key_of_t<C> arg_key(C x) { return Key::of(x, 0.0f); }
template <typename Key> inline int arg_key(float x) { return Key::of(x + 0.0f, 0.0f); }

// The best of n elements that this thread sees, and the first place of it: two loops, the extremum, then where it is.
template <typename Key, typename T, typename K>
inline Indexed<K> best_of(device const T* x, long stride, ulong n, GroupThread g) {
  typedef compute_t<T> C;
  enum : uint { kBlock = 8192 };
  Indexed<K> best = {least_key<K>::value(), LONG_MAX};
  for (ulong first = 0; first < n; first += kBlock) {
    device const T* block = x + long(first) * stride;
    const uint size = uint(smaller(kBlock, n - first));
    K key = least_key<K>::value();
    uint place = UINT_MAX;
    if (stride == 1) {
      MPSX_REDUCE(max : key)
      for (uint i = g.index; i < size; i += g.count) {
        const K k = arg_key<Key>(C(block[i]));
        key = key < k ? k : key;
      }
      if (key <= best.key && best.index != LONG_MAX) continue;
      MPSX_REDUCE(min : place)
      for (uint i = g.index; i < size; i += g.count) {
        const uint candidate = arg_key<Key>(C(block[i])) == key ? i : UINT_MAX;
        place = candidate < place ? candidate : place;
      }
    } else {
      for (uint i = g.index; i < size; i += g.count) {
        const K k = arg_key<Key>(C(block[long(i) * stride]));
        if (k > key || place == UINT_MAX) key = k, place = i;
      }
    }
    if (place != UINT_MAX && (key > best.key || best.index == LONG_MAX)) best = Indexed<K>{key, long(first) + place};
  }
  return best;
}

template <typename T, typename Key>
kernel void arg_rows(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                     device Indexed<key_of_t<compute_t<T>>>* parts [[buffer(2)]], device const T* x [[buffer(3)]],
                     constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  typedef key_of_t<compute_t<T>> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Indexed<K> scratch[kScratch];
  const ReduceRange r = reduce_row_range(p, g.group.xy);
  device const T* row = x + (r.input + long(r.begin) * p.inner_stride);
  Indexed<K> best = best_of<Key, T, K>(row, p.inner_stride, r.end - r.begin, g);
  if (best.index != LONG_MAX) best.index += long(r.begin);
  best = tg_argmax(best, scratch, g);
  if (g.index != 0) return;
  if (p.splits > 1) {
    parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = best;
    return;
  }
  indices[r.output] = best.index;
  if (p.both) values[r.output] = x[r.input + best.index * p.inner_stride];
}

template <typename T, typename Key>
kernel void arg_columns(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                        device Indexed<key_of_t<compute_t<T>>>* parts [[buffer(2)]], device const T* x [[buffer(3)]],
                        constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  typedef compute_t<T> C;
  typedef key_of_t<C> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup K best[kReduceColumns];
  threadgroup uint place[kReduceColumns];
  const ReduceRange r = reduce_column_range(p, g.group);
  const uint n = uint(r.end - r.begin), lines = uint(r.last - r.first);
  device const T* top = x + (r.input + line_offset(p, r.first) + long(r.begin));
  for (uint c = g.index; c < n; c += g.count) best[c] = arg_key<Key>(C(top[c])), place[c] = 0;
  for (uint line = 1; line < lines; ++line) {
    device const T* row = x + (r.input + line_offset(p, r.first + line) + long(r.begin));
    MPSX_VECTORIZE
    for (uint c = g.index; c < n; c += g.count) {
      const K k = arg_key<Key>(C(row[c])), was = best[c];
      place[c] = k > was ? line : place[c];
      best[c] = k > was ? k : was;
    }
  }
  for (uint c = g.index; c < n; c += g.count) {
    const long o = r.output + long(r.begin + c) * p.inner_out, index = long(r.first) + long(place[c]);
    if (p.splits > 1) {
      parts[ulong(g.group.y) * p.outputs + ulong(o)] = Indexed<K>{best[c], index};
    } else {
      indices[o] = index;
      if (p.both) values[o] = x[r.input + line_offset(p, ulong(index)) + long(r.begin + c)];
    }
  }
}

// A thread per output: the best of its splits, which come in the order of their elements.
template <typename T, typename Key>
kernel void arg_merge(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                      device const Indexed<key_of_t<compute_t<T>>>* parts [[buffer(2)]],
                      constant ReduceParams& p [[buffer(3)]], uint o [[thread_position_in_grid]]) {
  typedef compute_t<T> C;
  typedef key_of_t<C> K;
  Indexed<K> best = parts[o];
  for (uint s = 1; s < p.splits; ++s) best = CombineArgMax::apply(best, parts[ulong(s) * p.outputs + o]);
  indices[o] = best.index;
  if (p.both) values[o] = T(Key::template Back<C>::value(best.key));
}

#define MPSX_ARG(T, TAG, NAME, KEY)                           \
  MPSX_KERNEL(#NAME "_rows_" #TAG, arg_rows<T, KEY>)          \
  MPSX_KERNEL(#NAME "_columns_" #TAG, arg_columns<T, KEY>)    \
  MPSX_KERNEL(#NAME "_merge_" #TAG, arg_merge<T, KEY>)
MPSX_FOR_ALL(MPSX_ARG, argmax, MaxKey)
MPSX_FOR_ALL(MPSX_ARG, argmin, MinKey)
