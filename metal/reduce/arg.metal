// The largest and smallest elements with their places: argmax, argmin, max and min along a dimension. A NaN wins; of
// equal elements the first.
#include "lib/compute.h"
#include "lib/instantiate.h"
#include "reduce/keys.h"
#include "reduce/loops.h"

// -0 and 0 are equal, so the first of them is the one wanted.
template <typename Key, typename C> inline key_of_t<C> arg_key(C x) { return Key::of(x, 0.0f); }
template <typename Key> inline int arg_key(float x) { return Key::of(x + 0.0f, 0.0f); }
template <typename Key, uint N, typename C> inline key_of_t<C> best_arg_key(thread const C* v) {
  return best_key<Key, N>(v);
}
template <typename Key, uint N> inline int best_arg_key(thread const float* v) {
  const int key = best_key<Key, N>(v);  // of -0 and 0 one or the other
  return key == INT_MAX ? key : arg_key<Key>(Key::template Back<float>::value(key));
}

template <typename K, typename I> struct Identity<CombineArgMax, Indexed<K, I>> {
  static Indexed<K, I> value() { return {least_key<K>::value(), numeric_limits<I>::max()}; }
};

// The best of this thread's share of n neighbours, and its place or that of the pack that has it, which find_in_run
// looks through.
template <typename Key, typename T, typename K>
inline Indexed<K, uint> best_of_run(device const T* x, uint past, uint n, Team team) {
  typedef compute_t<T> C;
  enum : uint { kPack = Run<T>::kPack };
  Indexed<K, uint> best = {least_key<K>::value(), UINT_MAX};
  Run<T> run(x, past, n, team);
  for (; run.load(); run.advance()) {
#pragma unroll
    for (uint k = 0; k < kAhead; ++k) {
      if (!run.holds(k)) continue;
      C v[kPack];
#pragma unroll
      for (uint j = 0; j < kPack; ++j) v[j] = C(run.value(k, j));
      best = CombineArgMax::apply(best, Indexed<K, uint>{best_arg_key<Key, kPack>(v), run.place(k)});
    }
  }
  for (uint e = run.index; e < run.edges; e += run.count)
    best = CombineArgMax::apply(best, Indexed<K, uint>{arg_key<Key>(C(x[run.edge(e)])), run.edge(e)});
  return best;
}
// The first place in that pack, or the edge, that has the key of the best.
template <typename Key, typename T, typename K>
inline uint find_in_run(device const T* x, uint past, Indexed<K, uint> best, uint n) {
  Run<T> run(x, past, n, Team{0, 0, 1, true});
  if (best.index - run.head >= run.packs * Run<T>::kPack) return best.index;
  run.raw[0] = run.fetch(best.index);
  uint place = 0;
#pragma unroll
  for (uint j = Run<T>::kPack; j-- > 0;) place = arg_key<Key>(compute_t<T>(run.value(0, j))) == best.key ? j : place;
  return best.index + place;
}
// The same of elements that are not neighbours.
template <typename Key, typename T, typename K>
inline Indexed<K, uint> best_of_strided(device const T* x, long stride, uint n, Team team) {
  Indexed<K, uint> best = {least_key<K>::value(), UINT_MAX};
  for (uint i = team.index; i < n; i += team.count)
    best = CombineArgMax::apply(best, Indexed<K, uint>{arg_key<Key>(compute_t<T>(x[long(i) * stride])), i});
  return best;
}

// A team looks through a row or, of a split one, a part, which has fewer than 2^32 elements: longer ones do not fit
// into memory, since rows are split where they are few.
template <typename T, typename Key>
kernel void arg_rows(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                     device Indexed<long>* parts [[buffer(2)]], device const T* x [[buffer(3)]],
                     constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  typedef key_of_t<compute_t<T>> K;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup Indexed<K, uint> scratch[kScratch];
  const Team team = team_of(uint(p.outputs), p.team, g);
  if (team.row >= p.outputs) return;
  const ReduceRange r = reduce_row_range(p, uint2(team.row, g.group.y));
  const long start = r.input + long(r.begin) * p.inner_stride;
  const uint n = uint(r.end - r.begin);
  const bool dense = p.inner_stride == 1;
  Indexed<K, uint> own;
  if (dense)
    own = best_of_run<Key, T, K>(x + start, uint(start) + p.offset, n, team);
  else
    own = best_of_strided<Key, T, K>(x + start, p.inner_stride, n, team);
  own = team_reduce<CombineArgMax>(own, scratch, team, g);
  if (team.index != 0) return;
  if (dense) own.index = find_in_run<Key>(x + start, uint(start) + p.offset, own, n);
  const Indexed<long> best = {own.key, long(r.begin) + long(own.index)};
  if (p.splits > 1) {
    parts[ulong(g.group.y) * p.outputs + ulong(r.output)] = best;
    return;
  }
  indices[r.output] = best.index;
  if (p.both) values[r.output] = x[r.input + best.index * p.inner_stride];
}

// Places as wide as keys, so that no accumulator has padding.
template <typename K> struct place_of { typedef uint type; };
template <> struct place_of<long> { typedef ulong type; };
template <typename K> using place_of_t = typename place_of<K>::type;

// Lines of the input, numbered from the first that the threadgroup reads.
template <typename T, typename Key>
struct NumberedLine {
  typedef key_of_t<compute_t<T>> K;
  typedef Indexed<K, place_of_t<K>> A;
  template <uint N> using Raw = Pack<T, N>;
  device const T* x;
  place_of_t<K> number;
  template <uint N> Pack<T, N> fetch(uint c) const { return load_pack<N>(x + c); }
  template <uint N> A value(Pack<T, N> raw, uint j, uint) const {
    return {arg_key<Key>(compute_t<T>(raw.v[j])), number};
  }
  A one(uint c, uint) const { return {arg_key<Key>(compute_t<T>(x[c])), number}; }
};
template <typename T, typename Key>
struct NumberedLines {
  typedef NumberedLine<T, Key> Line;
  device const T* x;
  constant ReduceParams* p;
  ulong first;
  Line line(ulong i) const { return {x + line_offset(*p, i), place_of_t<typename Line::K>(i - first)}; }
};

template <typename T, typename Key>
kernel void arg_columns(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                        device Indexed<long>* parts [[buffer(2)]], device const T* x [[buffer(3)]],
                        constant ReduceParams& p [[buffer(4)]], MPSX_GROUP_PARAMETERS) {
  typedef typename NumberedLine<T, Key>::A A;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A best[kFoldColumns], scratch[kFoldThreads * column_pack<T>];
  const ReduceRange r = reduce_column_range(p, g.group);
  const uint n = uint(r.end - r.begin);
  const NumberedLines<T, Key> lines = {x + (r.input + long(r.begin)), &p, r.first};
  if (p.packed)
    fold_columns<CombineArgMax, column_pack<T>, 1>(best, scratch, lines, r.first, r.last, n, g);
  else
    fold_columns<CombineArgMax, 1, 1>(best, scratch, lines, r.first, r.last, n, g);
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

// The best of each output's splits.
template <typename T, typename Key>
kernel void arg_merge(device long* indices [[buffer(0)]], device T* values [[buffer(1)]],
                      device const Indexed<long>* parts [[buffer(2)]], constant ReduceParams& p [[buffer(3)]],
                      MPSX_GROUP_PARAMETERS) {
  typedef compute_t<T> C;
  typedef Indexed<long> A;
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup A best[kFoldColumns], scratch[kFoldThreads];
  const ulong begin = ulong(g.group.x) * kMergeColumns;
  const uint n = uint(smaller(p.outputs - begin, kMergeColumns));
  fold_columns<CombineArgMax, 1, 1>(best, scratch, PartialLines<A>{parts + begin, p.outputs}, 0, p.splits, n, g);
  for (uint c = g.index; c < n; c += g.count) {
    indices[begin + c] = best[c].index;
    if (p.both) values[begin + c] = T(Key::template Back<C>::value(key_of_t<C>(best[c].key)));
  }
}

#define MPSX_ARG(T, TAG, NAME, KEY)                           \
  MPSX_KERNEL(#NAME "_rows_" #TAG, arg_rows<T, KEY>)          \
  MPSX_KERNEL(#NAME "_columns_" #TAG, arg_columns<T, KEY>)    \
  MPSX_KERNEL(#NAME "_merge_" #TAG, arg_merge<T, KEY>)
MPSX_FOR_ALL(MPSX_ARG, argmax, MaxKey)
MPSX_FOR_ALL(MPSX_ARG, argmin, MinKey)
