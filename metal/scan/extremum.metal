// cummax and cummin: the extremum so far and its index. The last of equal elements wins; a NaN stays.
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
  static State identity() { return {C(0), kNone}; }
  static bool changes(State a, C x) {
    return a.index == kNone || is_nan(x) || (!is_nan(a.value) && Order::beats(x, a.value));
  }
  static void next(thread State& s, C x, uint i) { s = join(s, {x, i}); }
  static State join(State a, State b) {
    const bool takes = b.index != kNone && changes(a, b.value);
    return {takes ? b.value : a.value, takes ? b.index : a.index};
  }
};

template <typename T, typename S>
struct Found {
  device T* values;
  device long* indices;
  void write(uint i, thread const typename S::State& s) const {
    values[i] = T(s.value);
    indices[i] = long(s.index);
  }
  Found at(ulong offset) const { return {values + offset, indices + offset}; }
};

template <typename T, typename Order>
kernel void extremum_rows(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                          device const T* in [[buffer(2)]], constant ScanParams& p [[buffer(3)]],
                          MPSX_GROUP_PARAMETERS) {
  typedef Extremum<compute_t<T>, Order> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup typename S::State scratch[kScanThreads];
  const ulong begin = ulong(g.group.x) * p.size;
  scan_row<S>(in + begin, Found<T, S>{values + begin, indices + begin}, p.size, scratch, g);
}
template <typename T, typename Order>
kernel void extremum_columns(device T* values [[buffer(0)]], device long* indices [[buffer(1)]],
                             device const T* in [[buffer(2)]], constant ScanParams& p [[buffer(3)]],
                             MPSX_GROUP_PARAMETERS) {
  typedef Extremum<compute_t<T>, Order> S;
  const GroupThread g = MPSX_GROUP_THREAD;
  const ulong begin = scan_column_begin(p, g.group);
  scan_columns<S>(in + begin, Found<T, S>{values + begin, indices + begin}, p, scan_column_count(p, g.group), g);
}

#define MPSX_EXTREMUM(T, TAG, NAME, ORDER)                          \
  MPSX_KERNEL(#NAME "_rows_" #TAG, extremum_rows<T, ORDER>)         \
  MPSX_KERNEL(#NAME "_columns_" #TAG, extremum_columns<T, ORDER>)
MPSX_FOR_ALL(MPSX_EXTREMUM, cummax, AtLeast)
MPSX_FOR_ALL(MPSX_EXTREMUM, cummin, AtMost)
