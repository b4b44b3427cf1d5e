// Extrema and their indices: argmax, argmin, and max and min along a dimension. If a row contains a NaN, the NaN is its
// extremum. If several elements are equal, the index of the first one is returned.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/keys.h"
#include "reduce/loops.h"

// -0 and 0 compare equal, so they must have the same key.
template <typename Key, typename C> inline key_of_t<C> arg_key(C x) { return Key::of(x, 0.0f); }
template <typename Key> inline int arg_key(float x) { return Key::of(x + 0.0f, 0.0f); }
template <typename Key, uint N, typename C> inline key_of_t<C> best_arg_key(thread const C* v) {
  return best_key<Key, N>(v);
}
template <typename Key, uint N> inline int best_arg_key(thread const float* v) {
  const int key = best_key<Key, N>(v);  // may be the key of -0, not of 0
  return key == INT_MAX ? key : arg_key<Key>(Key::template Decode<float>::value(key));
}

template <typename K, typename I> struct Init<CombineArgMax, Indexed<K, I>> {
  static Indexed<K, I> value() { return {lowest_key<K>::value(), numeric_limits<I>::max()}; }
};

// Finds the best key in this thread's share of n contiguous elements. The returned index is exact for an element in the
// prologue or tail. For an element in a vector, it is the index of the vector's first element, and find_in_vector then
// locates the element.
template <typename Key, typename T, typename K>
inline Indexed<K, uint> best_contiguous(device const T* x, uint offset, uint n, RowGroup group) {
  typedef compute_t<T> C;
  enum : uint { kVector = RowReader<T>::kVector };
  Indexed<K, uint> best = {lowest_key<K>::value(), UINT_MAX};
  RowReader<T> reader(x, offset, n, group);
  for (; reader.load_batch(); reader.advance()) {
#pragma unroll
    for (uint k = 0; k < kUnroll; ++k) {
      if (!reader.valid(k)) continue;
      C v[kVector];
#pragma unroll
      for (uint j = 0; j < kVector; ++j) v[j] = C(reader.value(k, j));
      best = CombineArgMax::apply(best, Indexed<K, uint>{best_arg_key<Key, kVector>(v), reader.offset(k)});
    }
  }
  for (uint e = reader.index; e < reader.scalars; e += reader.count) {
    const uint i = reader.scalar_offset(e);
    best = CombineArgMax::apply(best, Indexed<K, uint>{arg_key<Key>(C(x[i])), i});
  }
  return best;
}
// Returns the index of the first element with the best key, given the vector that best_contiguous found.
template <typename Key, typename T, typename K>
inline uint find_in_vector(device const T* x, uint offset, Indexed<K, uint> best, uint n) {
  RowReader<T> reader(x, offset, n, RowGroup{0, 0, 1, true});
  if (best.index - reader.prologue >= reader.vectors * RowReader<T>::kVector) return best.index;
  reader.raw[0] = reader.load(best.index);
  uint found = 0;
#pragma unroll
  for (uint j = RowReader<T>::kVector; j-- > 0;)
    found = arg_key<Key>(compute_t<T>(reader.value(0, j))) == best.key ? j : found;
  return best.index + found;
}
// Finds the best key in this thread's share of n strided elements.
template <typename Key, typename T, typename K>
inline Indexed<K, uint> best_strided(device const T* x, long stride, uint n, RowGroup group) {
  Indexed<K, uint> best = {lowest_key<K>::value(), UINT_MAX};
  for (uint i = group.index; i < n; i += group.count)
    best = CombineArgMax::apply(best, Indexed<K, uint>{arg_key<Key>(compute_t<T>(x[long(i) * stride])), i});
  return best;
}

// Each row group searches one row or, if rows are split, one split of a row.
template <typename T, typename Key>
kernel void arg_rows(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                     device Indexed<long>* parts [[buffer(2)]], device const T* x [[buffer(3)]],
                     constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  typedef key_of_t<compute_t<T>> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Indexed<K, uint> scratch[kScratch];
  const RowGroup group = row_group(uint(p.outputs), p.row_threads, g);
  if (group.row >= p.outputs) return;
  const ReduceRange r = reduce_row_range(p, group.row, g.group.y);
  const long start = r.input + long(r.begin) * p.inner_stride;
  const uint n = uint(r.end - r.begin);
  const bool dense = p.inner_stride == 1;
  Indexed<K, uint> own;
  if (dense)
    own = best_contiguous<Key, T, K>(x + start, uint(start) + p.offset, n, group);
  else
    own = best_strided<Key, T, K>(x + start, p.inner_stride, n, group);
  own = rg_reduce<CombineArgMax>(own, scratch, group, g);
  if (group.index != 0) return;
  if (dense) own.index = find_in_vector<Key>(x + start, uint(start) + p.offset, own, n);
  const Indexed<long> best = {own.key, long(r.begin) + long(own.index)};
  if (p.splits > 1) {
    parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = best;
    return;
  }
  indices[r.output] = best.index;
  if (p.both) values[r.output] = x[r.input + best.index * p.inner_stride];
}

// An index type of the same size as the key, so that accumulators need no padding.
template <typename K> struct index_type { typedef uint type; };
template <> struct index_type<long> { typedef ulong type; };
template <typename K> using index_type_t = typename index_type<K>::type;

// Provides the input as a matrix that columns.h can reduce. Row numbers are relative to the first row that the
// threadgroup reads.
template <typename T, typename Key>
struct IndexedRow {
  typedef key_of_t<compute_t<T>> K;
  typedef Indexed<K, index_type_t<K>> A;
  template <uint N> using Raw = Vec<T, N>;
  device const T* x;
  index_type_t<K> number;
  template <uint N> Vec<T, N> load(uint c) const { return load_vec<N>(x + c); }
  template <uint N> A value(Vec<T, N> raw, uint, uint j, uint) const {
    return {arg_key<Key>(compute_t<T>(raw.v[j])), number};
  }
  A scalar(uint c, uint) const { return {arg_key<Key>(compute_t<T>(x[c])), number}; }
};
template <typename T, typename Key>
struct IndexedMatrix {
  typedef IndexedRow<T, Key> Row;
  device const T* x;
  constant ReduceParams* p;
  ulong first;
  Row row(ulong i) const { return {x + line_offset(*p, i), index_type_t<typename Row::K>(i - first)}; }
};

template <typename T, typename Key>
kernel void arg_columns(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                        device Indexed<long>* parts [[buffer(2)]], device const T* x [[buffer(3)]],
                        constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  typedef typename IndexedRow<T, Key>::A A;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A best[kColumnTile], scratch[kColumnThreads * column_vector<T>];
  const ReduceRange r = reduce_column_range(p, g.group);
  const uint n = uint(r.end - r.begin);
  const IndexedMatrix<T, Key> matrix = {x + (r.input + long(r.begin)), &p, r.first};
  column_reduce<CombineArgMax, column_vector<T>, 1>(best, scratch, matrix, r.first, r.last, n, p.aligned, g);
  for (uint c = g.index; c < n; c += g.count) {
    const long o = r.output + long(r.begin + c) * p.inner_out, index = long(r.first) + long(best[c].index);
    if (p.splits > 1) {
      parts[ulong(g.group.y) * p.outputs + ulong(o)] = Indexed<long>{best[c].key, index};
    } else {
      indices[o] = index;
      if (p.both) values[o] = x[r.input + line_offset(p, ulong(index)) + long(r.begin + c)];
    }
  }
}

// Merges the partial results of each output.
template <typename T, typename Key>
kernel void arg_merge(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                      device const Indexed<long>* parts [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                      MPSX_GROUP_PARAMETERS) {
  typedef compute_t<T> C;
  typedef Indexed<long> A;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A best[kColumnTile], scratch[kColumnThreads];
  const ulong begin = ulong(g.group.x) * kMergeColumns;
  const uint n = uint(min64(p.outputs - begin, kMergeColumns));
  column_reduce<CombineArgMax, 1, 1>(best, scratch, PartialMatrix<A>{parts + begin, p.outputs}, 0, p.splits, n, false,
                                     g);
  for (uint c = g.index; c < n; c += g.count) {
    indices[begin + c] = best[c].index;
    if (p.both) values[begin + c] = T(Key::template Decode<C>::value(key_of_t<C>(best[c].key)));
  }
}

#define MPSX_ARG(T, TAG, NAME, KEY)                           \
  MPSX_KERNEL(#NAME "_rows_" #TAG, arg_rows<T, KEY>)          \
  MPSX_KERNEL(#NAME "_columns_" #TAG, arg_columns<T, KEY>)    \
  MPSX_KERNEL(#NAME "_merge_" #TAG, arg_merge<T, KEY>)
MPSX_FOR_ALL(MPSX_ARG, argmax, MaxKey)
MPSX_FOR_ALL(MPSX_ARG, argmin, MinKey)
