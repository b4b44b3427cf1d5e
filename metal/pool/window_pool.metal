// Maxima of windows that lie anywhere: max_pool3d, and adaptive and fractional pooling in two and three dimensions.
#include "lib/instantiate.h"
#include "lib/collective.h"
#include "lib/error.h"
#include "pool/maximum.h"
#include "pool/window.h"
#include "pool/window_params.h"

#if !MPSX_VECTOR_BYTES
enum : int { kFewWindows = 8 };  // in a row, which are not worth vectors
// Where the maximum of a window is, by one element after the other.
template <typename T>
inline int place_in_small(device const T* plane, constant WindowPoolParams& p, int z0, int z1, int y0, int y1, int x0,
                          int x1) {
  typedef compute_t<T> C;
  C best = lowest_of(C(0));
  int where = (z0 * p.in[1] + y0) * p.in[2] + x0;
  for (int z = z0; z < z1; z += p.dilation[0])
    for (int y = y0; y < y1; y += p.dilation[1]) {
      const int start = (z * p.in[1] + y) * p.in[2];
      MPSX_FEW
      for (int x = x0; x < x1; x += p.dilation[2]) take(best, where, C(plane[start + x]), start + x);
    }
  return where;
}

// Up to N neighbouring windows in the lanes of a vector, the last one again where there are fewer, and its last element
// again where a window is narrower than others: what is taken twice is taken once. Of halves, what the windows read of a
// row is made floats first if it is at most kSpan elements; `floats` is the plane so if all of it is.
enum : int { kSpan = 64 };
template <int N, typename T>
inline void few_windows(device T* out, device long* indices, device const T* plane, thread const compute_t<T>* floats,
                        constant WindowPoolParams& p, int z0, int z1, int y0, int y1, device const int* x_begin, device const int* x_end, int count) {
  typedef compute_t<T> C;
  typedef C Values __attribute__((ext_vector_type(N)));
  typedef int Places __attribute__((ext_vector_type(N)));
  const int step = p.dilation[2], first = x_begin[0], span = x_end[count - 1] - first;
  const bool widened = sizeof(T) < sizeof(C) && !floats && step == 1 && span <= kSpan;  // undilated windows end in order
  C line[kSpan];
  int begin[N], last[N];
  Values best;
  Places where;
  for (int j = 0; j < N; ++j) {
    const int i = min(j, count - 1);
    begin[j] = x_begin[i];
    last[j] = step == 1 ? x_end[i] - 1 : begin[j] + (x_end[i] - 1 - begin[j]) / step * step;
    best[j] = lowest_of(C(0));
    where[j] = (z0 * p.in[1] + y0) * p.in[2] + begin[j];
  }
  for (int z = z0; z < z1; z += p.dilation[0])
    for (int y = y0; y < y1; y += p.dilation[1]) {
      const int start = (z * p.in[1] + y) * p.in[2];
      if (widened) {
        MPSX_VECTORIZE
        for (int i = 0; i < span; ++i) line[i] = C(plane[start + first + i]);
      }
      for (int dx = 0; dx < p.width; dx += step) {
        Values v;
        Places at;
        for (int j = 0; j < N; ++j) {
          const int x = min(begin[j] + dx, last[j]);
          v[j] = floats ? floats[start + x] : widened ? line[x - first] : C(plane[start + x]);
          at[j] = start + x;
        }
        const auto taken = (v > best) | (v != v);
        best = taken ? v : best;
        where = __builtin_convertvector(taken, Places) ? at : where;
      }
    }
  for (int j = 0; j < count; ++j) {
    out[j] = plane[where[j]];
    indices[j] = where[j];
  }
}

// Integers in the order of the elements, NaN on top; -0 and 0 are equal.
inline int window_key(float x) { return ordered_max(x + 0.0f); }
template <typename T>
inline T window_key(T x) { return x; }
template <typename K> struct lowest_key;
template <> struct lowest_key<int> { static int value() { return INT_MIN; } };
template <> struct lowest_key<long> { static long value() { return LONG_MIN; } };
template <typename C> struct window_key_of { typedef int type; };
template <> struct window_key_of<long> { typedef long type; };

// The same of rows that are worth vectors: the maximum first, then the first place that has it. A NaN is looked for one
// by one: the last of several counts.
template <typename T>
inline int place_in_wide(device const T* plane, constant WindowPoolParams& p, int z0, int z1, int y0, int y1, int x0,
                         int x1) {
  typedef compute_t<T> C;
  typedef typename window_key_of<C>::type K;
  K best = lowest_key<K>::value();
  for (int z = z0; z < z1; z += p.dilation[0])
    for (int y = y0; y < y1; y += p.dilation[1]) {
      device const T* row = plane + (z * p.in[1] + y) * p.in[2];
      MPSX_REDUCE(max : best)
      for (int x = x0; x < x1; ++x) {
        const K key = window_key(C(row[x]));
        best = best < key ? key : best;
      }
    }
  for (int z = z0; z < z1; z += p.dilation[0])
    for (int y = y0; y < y1; y += p.dilation[1]) {
      const int start = (z * p.in[1] + y) * p.in[2];
      int place = INT_MAX;
      MPSX_REDUCE(min : place)
      for (int x = x0; x < x1; ++x) {
        const int here = window_key(C(plane[start + x])) == best ? x : INT_MAX;
        place = here < place ? here : place;
      }
      if (place == INT_MAX) continue;
      if (is_nan(C(plane[start + place]))) break;
      return start + place;
    }
  return place_in_small(plane, p, z0, z1, y0, y1, x0, x1);
}
#endif

// Row `group.x` of a plane of the result: NaN wins, the last of several too.
template <typename T>
inline void window_row(device T* out, device long* indices, device const T* plane, thread const compute_t<T>* floats,
                       device const int* begins, constant WindowPoolParams& p, uint2 group, uint tid, uint stride) {
  typedef compute_t<T> C;
  (void)floats;
  const int oz = int(group.x) / p.out[1], oy = int(group.x) - oz * p.out[1];
  device const int* ends = begins + (p.out[0] + p.out[1] + p.out[2]);
  const int z0 = begins[oz], z1 = ends[oz], y0 = begins[p.out[0] + oy], y1 = ends[p.out[0] + oy];
  device const int* x_begin = begins + p.out[0] + p.out[1];
  device const int* x_end = ends + p.out[0] + p.out[1];
  const ulong row = (ulong(group.y) * ulong(p.out[0]) * ulong(p.out[1]) + group.x) * ulong(p.out[2]);
  const int first_row = (z0 * p.in[1] + y0) * p.in[2];
  for (int ox = int(tid) * kTile; ox < p.out[2]; ox += int(stride) * kTile) {
    const int count = min(kTile, p.out[2] - ox);
#if !MPSX_VECTOR_BYTES
    const bool wide = p.width >= 8 && p.dilation[2] == 1;
    if (count < kFewWindows) {
      device T* to = out + row + ulong(ox);
      device long* at = indices + row + ulong(ox);
      if (!wide && count > 1) {
        if (count <= 4)
          few_windows<4>(to, at, plane, floats, p, z0, z1, y0, y1, x_begin + ox, x_end + ox, count);
        else
          few_windows<8>(to, at, plane, floats, p, z0, z1, y0, y1, x_begin + ox, x_end + ox, count);
        continue;
      }
      for (int j = ox; j < ox + count; ++j) {
        const int where = wide ? place_in_wide(plane, p, z0, z1, y0, y1, x_begin[j], x_end[j])
                               : place_in_small(plane, p, z0, z1, y0, y1, x_begin[j], x_end[j]);
        to[j - ox] = plane[where];
        at[j - ox] = where;
      }
      continue;
    }
#endif
    C best[kTile];
    int where[kTile], x0[kTile], x1[kTile];
    for (int j = 0; j < count; ++j) {
      best[j] = lowest_of(C(0));
      x0[j] = x_begin[ox + j];
      x1[j] = x_end[ox + j];
      where[j] = first_row + x0[j];
    }
    for (int z = z0; z < z1; z += p.dilation[0]) {
      for (int y = y0; y < y1; y += p.dilation[1]) {
        const int start = (z * p.in[1] + y) * p.in[2];
        device const T* x = plane + start;
        for (int dx = 0; dx < p.width; dx += p.dilation[2]) {
          MPSX_VECTORIZE
          for (int j = 0; j < count; ++j) {
            const bool inside = x0[j] + dx < x1[j];
            const int at = inside ? x0[j] + dx : 0;
            const C v = C(x[at]);
            const bool taken = inside && (v > best[j] || is_nan(v));
            best[j] = taken ? v : best[j];
            where[j] = taken ? start + at : where[j];
          }
        }
      }
    }
    for (int j = 0; j < count; ++j) out[row + ulong(ox + j)] = T(best[j]);
    for (int j = 0; j < count; ++j) indices[row + ulong(ox + j)] = where[j];
  }
}

// group = (rows of a plane of the result, plane). A small plane of halves is made floats once by a CPU.
template <typename T>
kernel void window_max(device T* out [[buffer(0)]], device long* indices [[buffer(1)]],
                       device const T* in [[buffer(2)]], device const int* tables [[buffer(3)]],
                       constant WindowPoolParams& p [[buffer(4)]], uint3 group [[threadgroup_position_in_grid]],
                       uint tid [[thread_index_in_threadgroup]], uint3 threads [[threads_per_threadgroup]]) {
  const ulong elements = ulong(p.in[0]) * ulong(p.in[1]) * ulong(p.in[2]);
  const uint rows = uint(p.out[0]) * uint(p.out[1]), first = group.x * uint(p.rows), last = min(first + uint(p.rows), rows);
  device const int* begins = tables + ulong(group.y) * ulong(p.table);
  device const T* plane = in + ulong(group.y) * elements;
  thread const compute_t<T>* floats = nullptr;
#if !MPSX_VECTOR_BYTES
  compute_t<T> line[kSpan];
  if (sizeof(T) < sizeof(compute_t<T>) && elements <= kSpan) {
    MPSX_VECTORIZE
    for (uint i = 0; i < uint(elements); ++i) line[i] = compute_t<T>(plane[i]);
    floats = line;
  }
#endif
  for (uint row = first; row < last; ++row)
    window_row(out, indices, plane, floats, begins, p, uint2(row, group.y), tid, threads.x);
}

// The gradient where windows share no element: what a maximum gets is moved to its place, the others get nothing. One
// threadgroup per plane. Bits are moved, named by their size.
template <typename T>
kernel void window_max_bwd(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                           device const long* indices [[buffer(2)]], constant WindowPlaneParams& p [[buffer(3)]],
                           device ErrorRecord* errors [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint count = uint(p.in), windows = uint(p.out);
  device T* to = grad_in + ulong(g.group.x) * count;
  device const T* from = grad_out + ulong(g.group.x) * windows;
  device const long* at = indices + ulong(g.group.x) * windows;
  MPSX_VECTORIZE
  for (uint i = g.index; i < count; i += g.count) to[i] = T(0);
  tg_device_barrier();
  for (uint i = g.index; i < windows; i += g.count) {
    const long place = checked_index(at[i], long(count), false, 1, errors);
    if (place >= 0) to[place] = from[i];
  }
}

// The same of windows that share elements: a CPU's thread, which has the plane to itself, adds up in order; a small plane
// of halves in float32, since an addition in memory waits until the one before it is rounded. p.zero, since of zeros that
// it knows a compiler makes a call of memset, whose long stores bypass the cache that is read next.
#if !MPSX_VECTOR_BYTES
enum : uint { kSmallPlane = 2048 };
template <typename C, typename T>
inline void add_windows(thread C* sum, uint count, device const T* from, device const long* at, uint windows,
                        float zero, device ErrorRecord* errors) {
  MPSX_VECTORIZE
  for (uint i = 0; i < count; ++i) sum[i] = C(zero);
  for (uint i = 0; i < windows; ++i) {
    const long place = checked_index(at[i], long(count), false, 1, errors);
    if (place >= 0) sum[place] = C(float(sum[place]) + float(from[i]));
  }
}
template <typename T>
kernel void window_max_bwd_shared(device T* grad_in [[buffer(0)]], device const T* grad_out [[buffer(1)]],
                                  device const long* indices [[buffer(2)]], constant WindowPlaneParams& p [[buffer(3)]],
                                  device ErrorRecord* errors [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  const uint count = uint(p.in), windows = uint(p.out);
  device T* to = grad_in + ulong(g.group.x) * count;
  device const T* from = grad_out + ulong(g.group.x) * windows;
  device const long* at = indices + ulong(g.group.x) * windows;
  if (sizeof(T) == sizeof(float) || count > kSmallPlane) return add_windows(to, count, from, at, windows, p.zero, errors);
  float sum[kSmallPlane];
  add_windows(sum, count, from, at, windows, p.zero, errors);
  MPSX_VECTORIZE
  for (uint i = 0; i < count; ++i) to[i] = T(sum[i]);
}
#define WINDOW_SHARED(T, TAG, ...) MPSX_KERNEL("window_max_bwd_shared_" #TAG, window_max_bwd_shared<T>)
MPSX_FOR_FLOAT(WINDOW_SHARED, )
#endif

#define WINDOW_MAX(T, TAG, ...) MPSX_KERNEL("window_max_" #TAG, window_max<T>)
MPSX_FOR_REAL(WINDOW_MAX, )
MPSX_KERNEL("window_max_bwd_i8", window_max_bwd<char>)
MPSX_KERNEL("window_max_bwd_i16", window_max_bwd<short>)
MPSX_KERNEL("window_max_bwd_i32", window_max_bwd<int>)
MPSX_KERNEL("window_max_bwd_i64", window_max_bwd<long>)
