// A row distributed over the registers of a row group's threads. Adjacent threads load adjacent 16-byte vectors, which
// stay in the element type. A row that fits in registers is read once, regardless of the number of passes over it. A
// longer row is loaded in batches: passes alternate in direction, and each one starts with the batch that the previous
// pass left in registers. Every pass rereads the elements before the first aligned vector (the prologue) and after the
// last one (the tail).
//
//   const RowGroup group = row_group(p.rows, p.row_threads, g);
//   if (group.row >= p.rows) return;
//   RegisterRow<Loader<T>> row;
//   row.open({x + ulong(group.row) * p.size}, p, group);
//   const float sum = rg_reduce<CombineSum>(row.sum(Identity()), scratch, group, g);
//   row.store(y, NoAux(), Subtract{sum});
//
// A loader reads a vector and converts its elements. A functor's at() maps one element.
#pragma once

#include "lib/row_params.h"
#include "lib/threadgroup.h"
#include "lib/vec.h"

// Loads the elements of one array, converted to float.
template <typename T>
struct Loader {
  enum : uint { kVector = 16 / sizeof(T) };
  typedef float Value;
  typedef uint4 Raw;  // as words, since compilers would put each half in a separate register
  device const T* x;
  static Raw fill(uint word) { return uint4(word); }
  Raw load(uint i) const { return load_words<16>(x + i); }
  static float element(Raw raw, uint j) { return float(VecWords<T, sizeof(T)>::get(raw, j)); }
  void unpack(thread float* v, Raw raw, uint) const {
#pragma unroll
    for (uint j = 0; j < kVector; ++j) v[j] = element(raw, j);
  }
  // Whether the results of a pass can overwrite a vector, which requires float elements.
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

// Stands for a missing auxiliary operand (weight or bias) in a store.
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
  uint prologue, vectors, scalars;  // elements in the prologue; vectors; elements in the prologue and tail together
  uint index, count;                // this thread's index in the row group, and the number of threads in it
  uint batch, last;                 // index of the batch in registers; index of the last batch
  bool forward;
  Raw raw[kVectors];

  // Starts a row of `size` elements that begins `offset` elements after a 16-byte boundary.
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

  // For this thread's vector k: the vector's index in the row, and the offset of its first element.
  uint number(uint k) const { return (batch * kVectors + k) * count + index; }
  uint offset(uint k) const { return prologue + number(k) * kVector; }
  // Offset in the row of element e of the prologue and tail.
  uint scalar_offset(uint e) const { return e < prologue ? e : e + vectors * kVector; }
  void values(thread V* v, uint k) const { in.unpack(v, raw[k], offset(k)); }

  // Issues all loads before the first use. Fills vectors past the end with a value that the compiler cannot predict.
  // With a constant, compilers would move the work on a vector into the branch that loads it and stall there.
  void load_batch() {
#pragma unroll
    for (uint k = 0; k < kVectors; ++k) {
      raw[k] = In::fill(vectors);
      if (number(k) < vectors) raw[k] = in.load(offset(k));
    }
  }
  // Loads the next batch of the pass. After the last batch, reverses the direction and returns false.
  bool next_batch() {
    if (batch == (forward ? last : 0)) {
      forward = !forward;
      return false;
    }
    batch = forward ? batch + 1 : batch - 1;
    load_batch();
    return true;
  }

  // Returns the maximum of this thread's values, ignoring NaN.
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

  // Returns the sums of f and of g over this thread's values.
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
  // Returns the sum of f over this thread's values. In the batch that stays in registers, replaces the values with the
  // results, for store_scaled.
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
  // Stores y = f(value) * scale. Must follow map_sum(f).
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
