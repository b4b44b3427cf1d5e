// cummax and cummin: the running extremum and its index. Among equal elements, the last one wins. NaN propagates.
#include "scan/scan.h"

// An index type of the same size as the value, so that no padding is needed.
template <typename C> struct index_of { typedef uint type; };
template <> struct index_of<long> { typedef ulong type; };
template <typename C>
struct RunningExtremum {
  C value;
  typename index_of<C>::type index;  // kNone before the first element
};
template <typename C>
inline RunningExtremum<C> shuffle_up(RunningExtremum<C> v, ushort distance) {
  return {shuffle_up(v.value, distance), shuffle_up(v.index, distance)};
}
enum : uint { kNone = UINT_MAX };

struct AtLeast {
  template <typename C> static bool beats(C x, C best) { return x >= best; }
};
struct AtMost {
  template <typename C> static bool beats(C x, C best) { return x <= best; }
};

template <typename C, typename Order>
struct Extremum {
  typedef RunningExtremum<C> State;
  static State identity() { return {C(0), kNone}; }
  static bool replaces(State a, C x) {
    return a.index == kNone || is_nan(x) || (!is_nan(a.value) && Order::beats(x, a.value));
  }
  static void next(thread State& s, C x, uint i) { s = join(s, {x, i}); }
  static State join(State a, State b) {
    const bool replace = b.index != kNone && replaces(a, b.value);
    return {replace ? b.value : a.value, replace ? b.index : a.index};
  }
};

template <typename T, typename S>
struct ExtremumOutput {
  typedef typename S::State State;
  template <uint N>
  struct Block {
    Vec<T, N> values;
    Vec<long, N> indices;
    void set(uint j, thread const State& s) {
      values.v[j] = T(s.value);
      indices.v[j] = long(s.index);
    }
  };
  device T* values;
  device long* indices;
  void write(uint i, thread const State& s) const {
    values[i] = T(s.value);
    indices[i] = long(s.index);
  }
  template <uint N> void store(uint i, Block<N> b) const {
    store_vec(values + i, b.values);
    store_vec(indices + i, b.indices);
  }
  ExtremumOutput at(ulong offset) const { return {values + offset, indices + offset}; }
};

template <typename T, typename Order>
kernel void extremum_rows(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                          device const T* in [[buffer(2)]], constant ScanParams& p [[buffer(3)]],
                          device RunningExtremum<compute_t<T>>* states [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  typedef Extremum<compute_t<T>, Order> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State scratch[kScratch];
  scan_rows<S>(in, ExtremumOutput<T, S>{values, indices}, p, states, scratch, g);
}
template <typename T, typename Order>
kernel void extremum_columns(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                             device const T* in [[buffer(2)]], constant ScanParams& p [[buffer(3)]],
                             device RunningExtremum<compute_t<T>>* states [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  typedef Extremum<compute_t<T>, Order> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  scan_columns<S>(in, ExtremumOutput<T, S>{values, indices}, p, states, g);
}

#define MPSX_EXTREMUM(T, TAG, NAME, ORDER)                          \
  MPSX_KERNEL(#NAME "_rows_" #TAG, extremum_rows<T, ORDER>)         \
  MPSX_KERNEL(#NAME "_columns_" #TAG, extremum_columns<T, ORDER>)
MPSX_FOR_ALL(MPSX_EXTREMUM, cummax, AtLeast)
MPSX_FOR_ALL(MPSX_EXTREMUM, cummin, AtMost)
