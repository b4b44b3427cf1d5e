// A row distributed over the registers of a row group's threads. Adjacent threads load adjacent 16-byte vectors, which
// are kept in the element type. A row that fits in registers is loaded once, however many passes the kernel makes over
// it. A longer row is loaded in batches. The passes over it alternate in direction, so each pass starts with the batch
// that the previous pass left in registers. The elements before the first aligned vector (the prologue) and after the
// last one (the tail) are loaded in every pass.
//
//   const RowGroup group = row_group(p.rows, p.row_threads, g);
//   if (group.row >= p.rows) return;
//   RegisterRow<Loader<T>> row;
//   row.open({x + ulong(group.row) * p.size}, p, group);
//   const float sum = rg_reduce<CombineSum>(row.sum(Identity()), scratch, group, g);
//   row.store(y, NoAux(), Subtract{sum});
//
// A loader reads a vector and converts its elements. at() of a functor maps one element.
#pragma once

#include "lib/row_params.h"
#include "lib/threadgroup.h"
#include "lib/vec.h"

// Loads the elements of one array and converts them to float.
template <typename T>
struct Loader {
  enum : uint { kVector = 16 / sizeof(T) };
  typedef float Value;
  typedef uint4 Raw;  // words, because compilers would put each half in a separate register
  device const T* x;
  static Raw fill(uint word) { return uint4(word); }
  Raw load(uint i) const { return load_words<16>(x + i); }
  static float element(Raw raw, uint j) { return float(VecWords<T, sizeof(T)>::get(raw, j)); }
  void unpack(thread float* v, Raw raw, uint) const {
#pragma unroll
    for (uint j = 0; j < kVector; ++j) v[j] = element(raw, j);
  }
  // Whether a pass can overwrite a vector with its results. This requires float elements.
  enum : bool { kOverwrites = sizeof(T) == 4 };
  static void overwrite(thread Raw& raw, thread const float* v) {
#pragma unroll
    for (uint j = 0; kOverwrites && j < kVector; ++j) raw[j] = as_type<uint>(v[j]);
  }
  float scalar(uint i) const { return float(x[i]); }
};

// Loads the elements of two arrays as pairs.
template <typename T>
struct PairLoader {
  enum : uint { kVector = 16 / sizeof(T) };
  typedef Pair Value;
  struct Raw {
    uint4 a, b;
  };
  device const T* x;
  device const T* y;
  static Raw fill(uint word) { return {uint4(word), uint4(word)}; }
  Raw load(uint i) const { return {Loader<T>{x}.load(i), Loader<T>{y}.load(i)}; }
  static Pair element(Raw raw, uint j) { return {Loader<T>::element(raw.a, j), Loader<T>::element(raw.b, j)}; }
  void unpack(thread Pair* v, Raw raw, uint) const {
#pragma unroll
    for (uint j = 0; j < kVector; ++j) v[j] = element(raw, j);
  }
  Pair scalar(uint i) const { return {float(x[i]), float(y[i])}; }
};

// Takes the place of a missing auxiliary operand (weight or bias) in a store.
struct NoAux {
  struct Raw {};
  template <uint N> Raw load(uint) const { return Raw(); }
  float at(Raw, uint) const { return 0.0f; }
  float scalar(uint) const { return 0.0f; }
};

struct Identity {
  float at(float x) const { return x; }
};
struct Zero {
  template <typename V> float at(thread const V&) const { return 0.0f; }
};
template <typename F>
struct ScaledResult {
  F f;
  float scale;
  float at(float x, float) const { return f.at(x) * scale; }
};

template <typename In>
struct RegisterRow {
  typedef typename In::Value V;
  typedef typename In::Raw Raw;
  enum : uint { kVector = In::kVector, kVectors = kRegisterBytes / sizeof(Raw) };
  In in;
  uint prologue, vectors, scalars;  // elements in the prologue; vectors; elements in the prologue and the tail
  uint index, count;                // this thread's index in the row group; threads in the row group
  uint batch, last;                 // index of the batch in registers; index of the last batch
  bool forward;
  Raw raw[kVectors];

  // Opens a row of `size` elements that starts `offset` elements after a 16-byte boundary.
  void open(In from, uint offset, uint size, bool vectorized, RowGroup group) {
    in = from;
    prologue = vectorized ? min((kVector - offset % kVector) % kVector, size) : 0;
    vectors = vectorized ? (size - prologue) / kVector : 0;
    scalars = size - vectors * kVector;
    index = group.index, count = group.count;
    last = vectors == 0 ? 0 : (vectors - 1) / (kVectors * count);
    batch = 0, forward = true;
    load_batch();
  }
  void open(In from, constant RowShape& s, RowGroup group) {
    open(from, s.offset + group.row * s.size, s.size, s.vectorized != 0, group);
  }

  // The index of this thread's vector k in the row, and the offset of its first element.
  uint number(uint k) const { return (batch * kVectors + k) * count + index; }
  uint offset(uint k) const { return prologue + number(k) * kVector; }
  // The offset in the row of element e of the prologue and tail.
  uint scalar_offset(uint e) const { return e < prologue ? e : e + vectors * kVector; }
  void values(thread V* v, uint k) const { in.unpack(v, raw[k], offset(k)); }

  // Issues all loads before the first use. Vectors past the end are filled with a value that the compiler cannot
  // predict. If it were a constant, the compiler would move the work on each vector into the branch that loads it, and
  // stall there.
  void load_batch() {
#pragma unroll
    for (uint k = 0; k < kVectors; ++k) {
      raw[k] = In::fill(vectors);
      if (number(k) < vectors) raw[k] = in.load(offset(k));
    }
  }
  // Loads the next batch of the pass. At the end of a pass, reverses the direction and returns false.
  bool next_batch() {
    if (batch == (forward ? last : 0)) {
      forward = !forward;
      return false;
    }
    batch = forward ? batch + 1 : batch - 1;
    load_batch();
    return true;
  }

  // Returns the maximum of this thread's values. Ignores NaN.
  float thread_max() {
    float row_max = -INFINITY;
    do {
#pragma unroll
      for (uint k = 0; k < kVectors; ++k) {
        if (number(k) >= vectors) continue;
        V v[kVector];
        values(v, k);
#pragma unroll
        for (uint j = 0; j < kVector; ++j) row_max = fmax(row_max, v[j]);
      }
    } while (next_batch());
    for (uint e = index; e < scalars; e += count) row_max = fmax(row_max, in.scalar(scalar_offset(e)));
    return row_max;
  }

  // Returns the sum of f and the sum of g over this thread's values.
  template <typename F, typename G>
  float2 sums(F f, G g) {
    float2 sum = float2(0.0f);
    do {
      float2 part = float2(0.0f);
#pragma unroll
      for (uint k = 0; k < kVectors; ++k) {
        if (number(k) >= vectors) continue;
        V v[kVector];
        values(v, k);
#pragma unroll
        for (uint j = 0; j < kVector; ++j) part += float2(f.at(v[j]), g.at(v[j]));
      }
      sum += part;
    } while (next_batch());
    for (uint e = index; e < scalars; e += count) {
      const V v = in.scalar(scalar_offset(e));
      sum += float2(f.at(v), g.at(v));
    }
    return sum;
  }
  template <typename F>
  float sum(F f) { return sums(f, Zero()).x; }
  // Returns the sum of f over this thread's values. In the batch that stays in registers, the results replace the
  // values, for use by store_scaled.
  template <typename F>
  float map_sum(F f) {
    float sum = 0.0f;
    do {
      float part = 0.0f;
#pragma unroll
      for (uint k = 0; k < kVectors; ++k) {
        if (number(k) >= vectors) continue;
        V v[kVector];
        values(v, k);
#pragma unroll
        for (uint j = 0; j < kVector; ++j) part += v[j] = f.at(v[j]);
        In::overwrite(raw[k], v);
      }
      sum += part;
    } while (next_batch());
    for (uint e = index; e < scalars; e += count) sum += f.at(in.scalar(scalar_offset(e)));
    return sum;
  }

  template <typename O, typename Aux, typename F>
  void store_batch(device O* y, Aux aux, F f) const {
#pragma unroll
    for (uint k = 0; k < kVectors; ++k) {
      if (number(k) >= vectors) continue;
      V v[kVector];
      values(v, k);
      Vec<O, kVector> out;
      const auto a = aux.template load<kVector>(offset(k));
#pragma unroll
      for (uint j = 0; j < kVector; ++j) out.v[j] = O(f.at(v[j], aux.at(a, j)));
      store_vec(y + offset(k), out);
    }
  }
  // Stores y = f(value, aux) for every element.
  template <typename O, typename Aux, typename F>
  void store(device O* y, Aux aux, F f) {
    do store_batch(y, aux, f);
    while (next_batch());
    for (uint e = index; e < scalars; e += count) {
      const uint i = scalar_offset(e);
      y[i] = O(f.at(in.scalar(i), aux.scalar(i)));
    }
  }
  // Stores y = f(value) * scale. Call map_sum(f) first.
  template <typename O, typename F>
  void store_scaled(device O* y, F f, float scale) {
    if (In::kOverwrites)
      store_batch(y, NoAux(), ScaledResult<Identity>{Identity(), scale});
    else
      store_batch(y, NoAux(), ScaledResult<F>{f, scale});
    while (next_batch()) store_batch(y, NoAux(), ScaledResult<F>{f, scale});
    for (uint e = index; e < scalars; e += count) {
      const uint i = scalar_offset(e);
      y[i] = O(f.at(in.scalar(i)) * scale);
    }
  }
};
