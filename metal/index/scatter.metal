// scatter and what is like it: a thread owns whole lines along the indexed dimension and walks them in order, so that the
// last of several writes to one place wins and sums do not depend on timing.
#include "lib/instantiate.h"
#include "index/check.h"
#include "index/params.h"
#include "lib/arithmetic.h"
#include "lib/compute.h"
#include "lib/index.h"

// Neighbouring lines that a thread walks together: on a CPU enough to fill vectors and cache lines.
constexpr constant uint kLines = MPSX_VECTOR_BYTES ? 1 : 256;

struct scatter_set {
  template <typename T> static T apply(T, T value) { return value; }
};
struct scatter_add {
  template <typename T> static T apply(T old, T value) { return add_scaled(old, value, T(1)); }
};
struct scatter_prod {
  template <typename T> static T apply(T old, T value) { return multiply(old, value); }
};
// Of two halves one, of which the float it was made has no more bits.
inline half narrowed(float x, half) { return half(x); }
inline bfloat narrowed(float x, bfloat) { return as_type<bfloat>(ushort(as_type<uint>(x) >> 16)); }
struct scatter_amax {
  template <typename T> static T apply(T old, T value) { return propagating_max(old, value); }
  static half apply(half old, half value) { return narrowed(propagating_max(float(old), float(value)), old); }
  static bfloat apply(bfloat old, bfloat value) { return narrowed(propagating_max(float(old), float(value)), old); }
};
struct scatter_amin {
  template <typename T> static T apply(T old, T value) { return propagating_min(old, value); }
  static half apply(half old, half value) { return narrowed(propagating_min(float(old), float(value)), old); }
  static bfloat apply(bfloat old, bfloat value) { return narrowed(propagating_min(float(old), float(value)), old); }
};

// *place becomes what Op makes of it and a value of the source.
template <typename Op, typename T>
inline void put(device T* place, T value) {
  *place = Op::apply(*place, value);
}

// group = (tile of x, y, z) over the dimensions that are not indexed. VALUE: the source is one value, for all.
template <typename T, typename Op, bool VALUE>
kernel void scatter(device T* self [[buffer(0)]], device const long* index [[buffer(1)]],
                    device const T* source [[buffer(2)]], constant ScatterParams& p [[buffer(3)]],
                    uint3 group [[threadgroup_position_in_grid]], uint tid [[thread_index_in_threadgroup]],
                    uint3 threads [[threads_per_threadgroup]]) {
  device T* to = self + row_offset(p, 0, group);
  device const long* at = index + row_offset(p, 1, group);
  device const T* from = VALUE ? source : source + row_offset(p, 2, group);
  const uint begin = group.x * p.tile, end = min(begin + p.tile, p.size[0]), count = p.count;
  // Read once: writes to self might be to the parameters, for all that a compiler knows.
  const long size = p.dim_size, place_step = p.step[0], index_step = p.step[1], source_step = p.step[2];
  const long self_pitch = p.stride[0][0], index_pitch = p.stride[1][0], source_pitch = p.stride[2][0];
  const bool negative = p.negative != 0;
  if (index_pitch == 0 && p.size[0] > 1) {  // one index for all lines: index_add, index_copy, index_fill
    const uint step = kLines > 1 ? 1u : threads.x;
    for (uint k = 0; k < count; ++k) {
      device T* row = to + known_index(at[long(k) * index_step], size, negative) * place_step;
      device const T* own = VALUE ? from : from + long(k) * source_step;
      if (self_pitch == 1 && (VALUE || source_pitch == 1)) {
        MPSX_VECTORIZE
        for (uint i = begin + tid; i < end; i += step) put<Op>(row + i, own[VALUE ? 0 : i]);
      } else {
        for (uint i = begin + tid; i < end; i += step)
          put<Op>(row + long(i) * self_pitch, own[VALUE ? 0 : long(i) * source_pitch]);
      }
    }
    return;
  }
  for (uint x = begin + tid * kLines; x < end; x += threads.x * kLines) {
    const uint last = min(x + kLines, end);
    if (index_step == 1) {  // lines lie densely: one after the other
      for (uint i = x; i < last; ++i) {
        device T* line = to + long(i) * self_pitch;
        device const long* where = at + long(i) * index_pitch;
        device const T* own = VALUE ? from : from + long(i) * source_pitch;
        if (!negative && place_step == 1 && (VALUE || source_step == 1)) {
          for (uint k = 0; k < count; ++k) {
            device T* place = line + known_index(where[k], size, false);
            put<Op>(place, own[VALUE ? 0 : k]);
          }
          continue;
        }
        for (uint k = 0; k < count; ++k) {
          device T* place = line + known_index(where[k], size, negative) * place_step;
          put<Op>(place, own[VALUE ? 0 : long(k) * source_step]);
        }
      }
    } else {
      for (uint k = 0; k < count; ++k) {
        device const long* where = at + long(k) * index_step;
        device const T* own = VALUE ? from : from + long(k) * source_step;
        for (uint i = x; i < last; ++i) {
          const long position = known_index(where[long(i) * index_pitch], size, negative);
          device T* place = to + long(i) * self_pitch + position * place_step;
          put<Op>(place, own[VALUE ? 0 : long(i) * source_pitch]);
        }
      }
    }
  }
}

// Values are moved as bits, named by their size.
#define SET(T, TAG)                                                         \
  MPSX_KERNEL("scatter_set_" #TAG, scatter<T, scatter_set, false>)          \
  MPSX_KERNEL("scatter_fill_" #TAG, scatter<T, scatter_set, true>)
SET(char, i8)
SET(short, i16)
SET(int, i32)
SET(long, i64)

#define REDUCE(T, TAG, NAME) MPSX_KERNEL("scatter_" #NAME "_" #TAG, scatter<T, scatter_##NAME, false>)
// Halves are added up and multiplied in float32, which the launcher makes of them where the kernel for few does not.
#define ACCUMULATE(NAME) REDUCE(float, f32, NAME) MPSX_FOR_INT(REDUCE, NAME)
ACCUMULATE(add)
REDUCE(bool, bool, add)
ACCUMULATE(prod)
MPSX_FOR_REAL(REDUCE, amax)
MPSX_FOR_REAL(REDUCE, amin)

#if !MPSX_VECTOR_BYTES
// A line of which index and source lie densely; halves are made floats some at a time.
template <typename Op, typename T>
inline void add_line(thread float* sums, device const long* index, device const T* source, constant ScatterParams& p,
                     uint3 line) {
  enum : uint { kPart = 128 };
  float part[kPart];
  const long step = p.step[0], size = p.dim_size;
  const bool negative = p.negative != 0;
  thread float* to = sums + (row_offset(p, 0, line) + long(line.x) * p.stride[0][0]);
  device const long* at = index + (row_offset(p, 1, line) + long(line.x) * p.stride[1][0]);
  device const T* from = source + (row_offset(p, 2, line) + long(line.x) * p.stride[2][0]);
  for (uint first = 0; first < p.count; first += kPart) {
    const uint n = min(uint(kPart), p.count - first);
    MPSX_VECTORIZE
    for (uint k = 0; k < n; ++k) part[k] = float(from[first + k]);
    for (uint k = 0; k < n; ++k) {
      thread float* sum = to + known_index(at[first + k], size, negative) * step;
      *sum = Op::apply(*sum, part[k]);
    }
  }
}

// Halves in a dense self of up to kFewPlaces elements, by one thread of a CPU. All that lies in three dimensions beside
// the indexed one.
template <typename T, typename Op>
kernel void scatter_few(device T* self [[buffer(0)]], device const long* index [[buffer(1)]],
                        device const T* source [[buffer(2)]], constant ScatterParams& p [[buffer(3)]],
                        constant uint& places [[buffer(4)]], uint tid [[thread_position_in_grid]]) {
  float sums[kFewPlaces];
  MPSX_VECTORIZE
  for (uint i = tid; i < places; ++i) sums[i] = float(self[i]);
  for (uint z = 0; z < p.size[2]; ++z) {
    for (uint y = 0; y < p.size[1]; ++y) {
      if (p.step[1] == 1 && p.step[2] == 1 && (p.stride[1][0] != 0 || p.size[0] == 1)) {
        for (uint x = 0; x < p.size[0]; ++x) add_line<Op>(sums, index, source, p, uint3(x, y, z));
        continue;
      }
      for (uint k = 0; k < p.count; ++k) {
        const uint3 line = uint3(0, y, z);
        const long to = row_offset(p, 0, line);
        device const long* at = index + (row_offset(p, 1, line) + long(k) * p.step[1]);
        device const T* from = source + (row_offset(p, 2, line) + long(k) * p.step[2]);
        if (p.stride[1][0] == 0 && p.stride[0][0] == 1 && p.stride[2][0] == 1) {
          thread float* row = sums + (to + known_index(*at, p.dim_size, p.negative != 0) * p.step[0]);
          MPSX_VECTORIZE
          for (uint x = 0; x < p.size[0]; ++x) row[x] = Op::apply(row[x], float(from[x]));
          continue;
        }
        for (uint x = 0; x < p.size[0]; ++x) {
          const long position = known_index(at[long(x) * p.stride[1][0]], p.dim_size, p.negative != 0);
          thread float* sum = sums + (to + long(x) * p.stride[0][0] + position * p.step[0]);
          *sum = Op::apply(*sum, float(from[long(x) * p.stride[2][0]]));
        }
      }
    }
  }
  MPSX_VECTORIZE
  for (uint i = 0; i < places; ++i) self[i] = T(sums[i]);
}
#define FEW(T, TAG, NAME) MPSX_KERNEL("scatter_few_" #NAME "_" #TAG, scatter_few<T, scatter_##NAME>)
FEW(half, f16, add) FEW(bfloat, bf16, add)
FEW(half, f16, prod) FEW(bfloat, bf16, prod)
#endif
