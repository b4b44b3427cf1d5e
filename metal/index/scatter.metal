// scatter. Each thread processes whole rows along the indexed dimension, in order. If several values are written to the
// same element, the last one wins. Sums are deterministic.
#include "lib/instantiate.h"
#include "index/check.h"
#include "index/params.h"
#include "lib/arithmetic.h"
#include "lib/collective.h"
#include "lib/compute.h"
#include "lib/index.h"

struct scatter_set {
  template <typename T> static T apply(T, T value) { return value; }
};
struct scatter_add {
  template <typename T> static T apply(T old, T value) { return add_scaled(old, value, T(1)); }
};
struct scatter_prod {
  template <typename T> static T apply(T old, T value) { return multiply(old, value); }
};
// Converts a float back to the half or bfloat that it was converted from. No rounding is needed.
inline half narrowed(float x, half) { return half(x); }
inline bfloat narrowed(float x, bfloat) { return as_type<bfloat>(ushort(as_type<uint>(x) >> 16)); }
// NaN propagates through the addition. With a select instead, on CPUs without mask registers, clang would evaluate both
// comparisons and then either branch or use slow masked stores.
struct scatter_amax {
  template <typename T> static T apply(T old, T value) { return propagating_max(old, value); }
  static float apply(float old, float value) { return is_nan(old) ? old + value : (old > value ? old : value); }
  static half apply(half old, half value) { return narrowed(apply(float(old), float(value)), old); }
  static bfloat apply(bfloat old, bfloat value) { return narrowed(apply(float(old), float(value)), old); }
};
struct scatter_amin {
  template <typename T> static T apply(T old, T value) { return propagating_min(old, value); }
  static float apply(float old, float value) { return is_nan(old) ? old + value : (old < value ? old : value); }
  static half apply(half old, half value) { return narrowed(apply(float(old), float(value)), old); }
  static bfloat apply(bfloat old, bfloat value) { return narrowed(apply(float(old), float(value)), old); }
};

// Combines an element of self with a value of the source.
template <typename Op, typename T>
inline void put(device T* element, T value) {
  *element = Op::apply(*element, value);
}

// Processes rows [begin, end) of a threadgroup. Thread `tid` processes every `threads`-th row. VALUE means that the
// source is a single value.
template <typename Op, bool VALUE, typename T>
inline void scatter_lines(device T* to, device const long* at, device const T* from, constant ScatterParams& p,
                          uint begin, uint end, uint tid, uint threads) {
  for (uint x = begin + tid; x < end; x += threads) {
    device T* line = to + long(x) * p.stride[0][0];
    device const long* index = at + long(x) * p.stride[1][0];
    device const T* source = VALUE ? from : from + long(x) * p.stride[2][0];
    for (uint k = 0; k < p.count; ++k) {
      const long position = known_index(index[long(k) * p.step[1]], p.dim_size, p.negative != 0);
      put<Op>(line + position * p.step[0], source[VALUE ? 0 : long(k) * p.step[2]]);
    }
  }
}

// x, y and z are the dimensions that are not indexed. group = (block of p.rows_per_group rows along x, y, z).
template <typename T, typename Op, bool VALUE>
kernel void scatter(device T* self [[buffer(0)]], device const long* index [[buffer(1)]],
                    device const T* source [[buffer(2)]], constant ScatterParams& p [[buffer(3)]],
                    uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                    uint3 threads [[threads_per_threadgroup]]) {
  const uint begin = group.x * p.rows_per_group, end = min(begin + p.rows_per_group, p.size[0]);
  scatter_lines<Op, VALUE>(self + row_offset(p, 0, group), index + row_offset(p, 1, group),
                           VALUE ? source : source + row_offset(p, 2, group), p, begin, end, tid, threads.x);
}

// Adds one value per lane of a SIMD group to elements of a row. If several lanes add to the same element, they do so in
// lane order. `bits` is the number of bits in an element index.
inline void add_in_order(threadgroup float* row, uint element, float value, bool valid, uint bits, uint lane) {
  uint peers = lanes_with(valid);
  for (uint b = 0; b < bits; ++b) {
    const bool set = (element >> b & 1u) != 0;
    const uint same = lanes_with(set);
    peers &= set ? same : ~same;
  }
  const uint before = popcount(peers & ((1u << lane) - 1u));
  for (uint turn = 0; lanes_with(valid && before >= turn) != 0; ++turn) {
    if (valid && before == turn) row[element] += value;
    sg_barrier();
  }
}

// Sums along the indexed dimension. One SIMD group computes each row, in threadgroup memory. x, y and z are the
// dimensions that are not indexed. group = (block of p.rows_per_group rows along x, y, z).
template <typename T>
kernel void scatter_add_rows(device T* self [[buffer(0)]], device const long* index [[buffer(1)]],
                             device const T* source [[buffer(2)]], constant ScatterParams& p [[buffer(3)]],
                             MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float sums[kScatterSums];
  const uint size = uint(p.dim_size), lanes = min(g.width, g.count), part = g.index / g.width;
  const uint parts = min(max(g.count / g.width, 1u), kScatterSums / size), bits = 32 - clz(size - 1);
  if (part >= parts) return;
  threadgroup float* row = sums + part * size;
  const uint begin = g.group.x * p.rows_per_group, end = min(begin + p.rows_per_group, p.size[0]);
  for (uint x = begin + part; x < end; x += parts) {
    device T* to = self + (row_offset(p, 0, g.group) + long(x) * p.stride[0][0]);
    device const long* at = index + (row_offset(p, 1, g.group) + long(x) * p.stride[1][0]);
    device const T* from = source + (row_offset(p, 2, g.group) + long(x) * p.stride[2][0]);
    for (uint first = 0; first < size; first += min(kScatterUnroll * lanes, size - first)) {
      T values[kScatterUnroll];
      MPSX_UNROLL for (uint j = 0; j < kScatterUnroll; ++j) values[j] = to[min(first + j * lanes + g.lane, size - 1)];
      MPSX_UNROLL for (uint j = 0; j < kScatterUnroll; ++j)
        if (first + j * lanes + g.lane < size) row[first + j * lanes + g.lane] = float(values[j]);
    }
    sg_all_barrier();
    for (uint first = 0; first < p.count; first += min(kScatterUnroll * lanes, p.count - first)) {
      long indices[kScatterUnroll];
      T values[kScatterUnroll];
      MPSX_UNROLL for (uint j = 0; j < kScatterUnroll; ++j) {
        const uint k = min(first + j * lanes + g.lane, p.count - 1);
        indices[j] = at[k];
        values[j] = from[long(k) * p.step[2]];
      }
      MPSX_UNROLL for (uint j = 0; j < kScatterUnroll; ++j)
          add_in_order(row, uint(known_index(indices[j], size, p.negative != 0)), float(values[j]),
                       first + j * lanes + g.lane < p.count, bits, g.lane);
    }
    for (uint i = g.lane; i < size; i += lanes) to[i] = T(row[i]);
    sg_barrier();
  }
}
#define ADD_ROWS(T, TAG, ...) MPSX_KERNEL("scatter_add_rows_" #TAG, scatter_add_rows<T>)
MPSX_FOR_FLOAT(ADD_ROWS, )

// These kernels copy raw bits, so they are named by element size.
#define SET(T, TAG)                                                         \
  MPSX_KERNEL("scatter_set_" #TAG, scatter<T, scatter_set, false>)          \
  MPSX_KERNEL("scatter_fill_" #TAG, scatter<T, scatter_set, true>)
SET(char, i8)
SET(short, i16)
SET(int, i32)
SET(long, i64)

#define REDUCE(T, TAG, NAME) MPSX_KERNEL("scatter_" #NAME "_" #TAG, scatter<T, scatter_##NAME, false>)
// For sums and products of half types, the launcher converts to float32.
#define ACCUMULATE(NAME) REDUCE(float, f32, NAME) MPSX_FOR_INT(REDUCE, NAME)
ACCUMULATE(add)
REDUCE(bool, bool, add)
ACCUMULATE(prod)
MPSX_FOR_REAL(REDUCE, amax)
MPSX_FOR_REAL(REDUCE, amin)
