// cummax and cummin: the extremum so far and its place. Of equal elements the last; a NaN stays.
#include "scan/scan.h"

template <typename C>
struct Best {
  C value;
  uint index;  // kNone: of no element
};
enum : uint { kNone = UINT_MAX };

struct AtLeast {
  template <typename C> static bool beats(C x, C best) { return x >= best; }
};
struct AtMost {
  template <typename C> static bool beats(C x, C best) { return x <= best; }
};

template <typename C, typename Order>
struct Extremum {
  typedef Best<C> State;
  typedef Extremum Lanes;
  enum : bool { kSlow = is_same_v<C, float> };
  static State identity() { return {C(0), kNone}; }
  static void next(thread State& s, C x, uint i) { s = join(s, {x, i}); }
  static State join(State a, State b) {
    const bool later = a.index == kNone || is_nan(b.value) || (!is_nan(a.value) && Order::beats(b.value, a.value));
    const bool takes = b.index != kNone && later;
    return {takes ? b.value : a.value, takes ? b.index : a.index};
  }
};

template <typename T, typename S>
struct Found {
  device T* values;
  device long* indices;
  typedef typename S::State Value;
  static Value value(thread const Value& s) { return s; }
  void write(uint i, Value s) const {
    values[i] = T(s.value);
    indices[i] = long(s.index);
  }
  Found at(ulong offset) const { return {values + offset, indices + offset}; }
  Found lanes() const { return *this; }
};

template <typename T, typename Order>
kernel void extremum_rows(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                          device const T* in [[buffer(2)]], constant ScanParams& p [[buffer(3)]],
                          MPSX_GROUP_PARAMETERS) {
  typedef Extremum<compute_t<T>, Order> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State scratch[kScanThreads];
  threadgroup compute_t<T> tile[kScanTile * kScanRows];
  threadgroup typename S::State found[kScanTile * kScanRows];
  threadgroup typename S::State lanes[kScanRows];
  scan_rows<S>(in, Found<T, S>{values, indices}, p, scratch, lanes, tile, found, g);
}
template <typename T, typename Order>
kernel void extremum_columns(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                             device const T* in [[buffer(2)]], constant ScanParams& p [[buffer(3)]],
                             MPSX_GROUP_PARAMETERS) {
  typedef Extremum<compute_t<T>, Order> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State state[kScanColumns];
  const ulong begin = scan_column_begin(p, g.group);
  scan_columns<S>(in + begin, Found<T, S>{values + begin, indices + begin}, p, scan_column_count(p, g.group), state, g);
}

#define MPSX_EXTREMUM(T, TAG, NAME, ORDER)                          \
  MPSX_KERNEL(#NAME "_rows_" #TAG, extremum_rows<T, ORDER>)         \
  MPSX_KERNEL(#NAME "_columns_" #TAG, extremum_columns<T, ORDER>)
MPSX_FOR_ALL(MPSX_EXTREMUM, cummax, AtLeast)
MPSX_FOR_ALL(MPSX_EXTREMUM, cummin, AtMost)
