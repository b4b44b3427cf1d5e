// Rows that their threads hold. A team of threads shares a row: neighbouring threads take neighbouring packs of 16
// bytes and keep them in registers as they are in memory, so that a row which fits is read once, whatever number of
// passes goes over it. A longer one is held a batch at a time, and passes go back and forth: each begins with the batch
// that the last one ended with. The elements before the first whole pack and after the last one, its edges, are read in
// every pass.
//
//   const Team team = team_of(p.shape.rows, p.shape.team, g);
//   if (team.row >= p.shape.rows) return;
//   Row<Plain<T>> row;
//   row.open({x + ulong(team.row) * p.shape.size}, p.shape, team);
//   const float sum = team_reduce<CombineSum>(row.sum(Itself()), scratch, team, g);
//   row.store(y, NoExtra(), Minus{sum});
//
// An input (Plain, …) says how a pack is fetched and what values it has, a function's at() is applied to each value.
#pragma once

#include "lib/pack.h"
#include "lib/row_params.h"
#include "lib/team.h"

// The values of one array, as float.
template <typename T>
struct Plain {
  enum : uint { kPack = 16 / sizeof(T) };
  typedef float Value;
  typedef uint4 Raw;  // words: of single halves compilers would make registers each
  device const T* x;
  static Raw filled(uint word) { return uint4(word); }
  Raw fetch(uint i) const { return PackAccess<16>::load((device const uchar*)(x + i)); }
  static float value(Raw raw, uint j) { return float(PackWords<T, sizeof(T)>::get(raw, j)); }
  void unpack(thread float* v, Raw raw, uint) const {
#pragma unroll
    for (uint j = 0; j < kPack; ++j) v[j] = value(raw, j);
  }
  // Puts others in their place, where floats are held.
  enum : bool { kKeeps = sizeof(T) == 4 };
  static void keep(thread Raw& raw, thread const float* v) {
#pragma unroll
    for (uint j = 0; kKeeps && j < kPack; ++j) raw[j] = as_type<uint>(v[j]);
  }
  float one(uint i) const { return float(x[i]); }
};

// Those of two arrays side by side.
struct Pair {
  float a, b;
};
template <typename T>
struct Both {
  enum : uint { kPack = 16 / sizeof(T) };
  typedef Pair Value;
  struct Raw {
    uint4 a, b;
  };
  device const T* x;
  device const T* y;
  static Raw filled(uint word) { return {uint4(word), uint4(word)}; }
  Raw fetch(uint i) const { return {Plain<T>{x}.fetch(i), Plain<T>{y}.fetch(i)}; }
  static Pair value(Raw raw, uint j) { return {Plain<T>::value(raw.a, j), Plain<T>::value(raw.b, j)}; }
  void unpack(thread Pair* v, Raw raw, uint) const {
#pragma unroll
    for (uint j = 0; j < kPack; ++j) v[j] = value(raw, j);
  }
  Pair one(uint i) const { return {float(x[i]), float(y[i])}; }
};

// No other operand beside the values that are stored.
struct NoExtra {
  struct Raw {};
  template <uint N> Raw fetch(uint) const { return Raw(); }
  float at(Raw, uint) const { return 0.0f; }
  float one(uint) const { return 0.0f; }
};

struct Itself {
  float at(float x) const { return x; }
};
struct Nothing {
  template <typename V> float at(thread const V&) const { return 0.0f; }
};
// Of scale * x: where squares of the values themselves would leave the range.
struct Distance {
  float from, scale;
  float at(float x) const { return fma(x, scale, -from); }
};
struct SquaredDistance {
  float from, scale;
  float at(float x) const {
    const float d = fma(x, scale, -from);
    return d * d;
  }
};
// With these sums of samples do not overflow, nor do squares of what has overflowed without.
constant float kSampleScale = 0x1p-32f, kSquareScale = 0x1p-96f;
template <typename F>
struct Times {
  F f;
  float scale;
  float at(float x, float) const { return f.at(x) * scale; }
};

template <typename In>
struct Row {
  typedef typename In::Value V;
  typedef typename In::Raw Raw;
  enum : uint { kPack = In::kPack, kPacks = kHeldBytes / sizeof(Raw) };
  In in;
  uint head, packs, edges;  // elements before the first pack; packs; elements that are in none
  uint index, count;        // this thread in its team
  uint batch, last;         // the batch that is held, and the last one
  bool forward;
  Raw raw[kPacks];

  // A row of `size` elements that begins `past` after a multiple of 16 bytes.
  void begin(In from, uint past, uint size, bool packed, Team team) {
    in = from;
    head = packed ? min((kPack - past % kPack) % kPack, size) : 0;
    packs = packed ? (size - head) / kPack : 0;
    edges = size - packs * kPack;
    index = team.index, count = team.count;
    last = packs == 0 ? 0 : (packs - 1) / (kPacks * count);
    batch = 0, forward = true;
    load();
  }
  void open(In from, constant RowShape& s, Team team) {
    begin(from, s.offset + team.row * s.size, s.size, s.packed != 0, team);
  }

  // Pack k of this thread: its number in the row, and where it begins.
  uint number(uint k) const { return (batch * kPacks + k) * count + index; }
  uint place(uint k) const { return head + number(k) * kPack; }
  uint edge(uint e) const { return e < head ? e : e + packs * kPack; }
  void values(thread V* v, uint k) const { in.unpack(v, raw[k], place(k)); }

  // All packs are on their way before the first one is used. Those past the end are anything but a constant, for which
  // compilers would move what is done with a pack into the branch that loads it, to wait there.
  void load() {
#pragma unroll
    for (uint k = 0; k < kPacks; ++k) {
      raw[k] = In::filled(packs);
      if (number(k) < packs) raw[k] = in.fetch(place(k));
    }
  }
  // Goes on to the next batch of a pass; at its end the direction turns.
  bool next() {
    if (batch == (forward ? last : 0)) {
      forward = !forward;
      return false;
    }
    batch = forward ? batch + 1 : batch - 1;
    load();
    return true;
  }

  // The sum of a few of this thread's values, times kSampleScale, and how many they are, before any pass. The mean of
  // all threads' is one to take distances from: n values are at most as far from that of k of them as costs the squares
  // log2(n / k) bits.
  float2 sample() const {
    float sum = 0.0f, taken = 0.0f;
    if (packs == 0) {
      for (uint e = index; e < edges && taken < float(kPack); e += count)
        sum = fma(in.one(edge(e)), kSampleScale, sum), taken += 1.0f;
      return float2(sum, taken);
    }
    if (index >= packs) return float2(0.0f);
    V v[kPack];
    values(v, 0);
#pragma unroll
    for (uint j = 0; j < kPack; ++j) sum = fma(v[j], kSampleScale, sum);
    return float2(sum, float(kPack));
  }

  // The largest of this thread's values that are numbers.
  float largest() {
    float top = -INFINITY;
    do {
#pragma unroll
      for (uint k = 0; k < kPacks; ++k) {
        if (number(k) >= packs) continue;
        V v[kPack];
        values(v, k);
#pragma unroll
        for (uint j = 0; j < kPack; ++j) top = fmax(top, v[j]);
      }
    } while (next());
    for (uint e = index; e < edges; e += count) top = fmax(top, in.one(edge(e)));
    return top;
  }

  // The largest of this thread's values that are numbers, or the least float, and the sum of f, an exponential, of the
  // distances from it. Both come of one pass: the sum is scaled when a pack has a larger value.
  template <typename F>
  float2 exp_sum(F f) {
    float top = -FLT_MAX, sum = 0.0f;
    do {
#pragma unroll
      for (uint k = 0; k < kPacks; ++k) {
        if (number(k) >= packs) continue;
        V v[kPack];
        values(v, k);
        float higher = top, part = 0.0f;
#pragma unroll
        for (uint j = 0; j < kPack; ++j) higher = fmax(higher, v[j]);
#pragma unroll
        for (uint j = 0; j < kPack; ++j) part += f.at(v[j] - higher);
        sum = fma(sum, f.at(top - higher), part);
        top = higher;
      }
    } while (next());
    for (uint e = index; e < edges; e += count) {
      const float x = in.one(edge(e)), higher = fmax(top, x);
      sum = fma(sum, f.at(top - higher), f.at(x - higher));
      top = higher;
    }
    return float2(top, sum);
  }

  // The sums of both functions over this thread's values.
  template <typename F, typename G>
  float2 sums(F f, G g) {
    float2 sum = float2(0.0f);
    do {
      float2 part = float2(0.0f);
#pragma unroll
      for (uint k = 0; k < kPacks; ++k) {
        if (number(k) >= packs) continue;
        V v[kPack];
        values(v, k);
#pragma unroll
        for (uint j = 0; j < kPack; ++j) part += float2(f.at(v[j]), g.at(v[j]));
      }
      sum += part;
    } while (next());
    for (uint e = index; e < edges; e += count) sum += float2(f.at(in.one(edge(e))), g.at(in.one(edge(e))));
    return sum;
  }
  template <typename F>
  float sum(F f) { return sums(f, Nothing()).x; }
  // The sum of f, whose results take the place of the values held last: for store_scaled.
  template <typename F>
  float map_sum(F f) {
    float sum = 0.0f;
    do {
      float part = 0.0f;
#pragma unroll
      for (uint k = 0; k < kPacks; ++k) {
        if (number(k) >= packs) continue;
        V v[kPack];
        values(v, k);
#pragma unroll
        for (uint j = 0; j < kPack; ++j) part += v[j] = f.at(v[j]);
        In::keep(raw[k], v);
      }
      sum += part;
    } while (next());
    for (uint e = index; e < edges; e += count) sum += f.at(in.one(edge(e)));
    return sum;
  }

  template <typename O, typename Extra, typename F>
  void write(device O* y, Extra extra, F f) const {
#pragma unroll
    for (uint k = 0; k < kPacks; ++k) {
      if (number(k) >= packs) continue;
      V v[kPack];
      values(v, k);
      Pack<O, kPack> out;
      const auto beside = extra.template fetch<kPack>(place(k));
#pragma unroll
      for (uint j = 0; j < kPack; ++j) out.v[j] = O(f.at(v[j], extra.at(beside, j)));
      store_pack(y + place(k), out);
    }
  }
  // y = f(value, extra) for every element.
  template <typename O, typename Extra, typename F>
  void store(device O* y, Extra extra, F f) {
    do write(y, extra, f);
    while (next());
    for (uint e = index; e < edges; e += count) y[edge(e)] = O(f.at(in.one(edge(e)), extra.one(edge(e))));
  }
  // y = f(value) * scale, after map_sum(f).
  template <typename O, typename F>
  void store_scaled(device O* y, F f, float scale) {
    if (In::kKeeps)
      write(y, NoExtra(), Times<Itself>{Itself(), scale});
    else
      write(y, NoExtra(), Times<F>{f, scale});
    while (next()) write(y, NoExtra(), Times<F>{f, scale});
    for (uint e = index; e < edges; e += count) y[edge(e)] = O(f.at(in.one(edge(e))) * scale);
  }
};
