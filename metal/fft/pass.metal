// One pass of an FFT by Stockham's algorithm (C. Van Loan, "Computational Frameworks for the Fast Fourier Transform",
// 1.7). Let n = L R S, where R is the size of this pass and L is the product of the sizes of the passes before it. For
// each k < L and s < S, the pass loads a column of R elements at k + L s + r L S, multiplies element r by exp(-2 pi i r
// k / (L R)), computes the DFT, and stores element r at k + L R s + r L.
//
// A threadgroup computes the DFT of a column by the same algorithm in threadgroup memory, with one step per radix. The
// first step reads device memory, and the last step writes it.
#include "fft/butterfly.h"
#include "fft/params.h"
#include "lib/collective.h"
#include "lib/instantiate.h"

inline float2 complex_element(float2 x) { return x; }
inline float2 complex_element(float x) { return float2(x, 0.0f); }
inline void store_element(device float2* out, float2 x) { *out = x; }
inline void store_element(device float* out, float2 x) { *out = x.x; }

// Returns exp(-pi i k^2 / n). Integer arithmetic reduces the angle exactly.
inline float2 chirp(uint k, uint n) { return root_of_unity(uint(ulong(k) * k % (2u * n)), 2u * n); }

struct FftColumn {
  long in, out;  // offsets of the column's first point
  uint phase;
};

template <typename I, typename O>
struct FftTile {
  device O* out;
  device const I* in;
  device const float2* table;
  constant FftParams& p;
  uint first, columns;  // range of columns that this threadgroup transforms

  METAL_FUNC FftColumn column(uint c) const {
    uint rest = first + c;
    FftColumn result = {0, 0, 0};
    for (uint d = 0; d < p.axes; ++d) {
      uint index = rest;
      if (d + 1 < p.axes) {
        rest = index / p.extent[d];
        index -= rest * p.extent[d];
      }
      result.in += long(index) * p.in_stride[d];
      result.out += long(index) * p.out_stride[d];
      result.phase += index * p.phase[d];
    }
    return result;
  }

  METAL_FUNC float2 input(FftColumn column, uint r, uint position) const {
    if (p.input.source == kFftChirp) {
      const uint k = min(position, p.length - position);
      return k < p.chirp ? conjugate(chirp(k, p.chirp)) : float2(0.0f);
    }
    if (p.input.limit != 0u && position >= p.input.limit) return float2(0.0f);
    if (p.input.source == kFftDirect) return complex_element(in[column.in + long(r) * p.in_step]);
    const uint n = p.input.limit != 0u ? p.input.limit : p.length;
    const bool mirrored = position > n / 2;
    const uint at = mirrored ? n - position : position;
    const float2 x = complex_element(in[column.in + (long(at) - long(column.phase)) * p.in_unit]);
    const bool is_real = position == 0u || 2u * position == n;
    return float2(x.x, is_real ? 0.0f : (mirrored ? -x.y : x.y));
  }

  METAL_FUNC float2 load(FftColumn column, uint r) const {
    const uint position = column.phase + r * p.in_spacing;
    float2 x = input(column, r, position);
    if (p.input.swap_first != 0u) x = x.yx;
    if (p.twiddle != 0u) x = complex_product(x, root_of_unity(r * column.phase, p.twiddle));
    if (p.input.factor == kFftByChirp && position < p.chirp) x = complex_product(x, chirp(position, p.chirp));
    if (p.input.factor == kFftByTable) x = complex_product(x, table[position]);
    return p.input.swap_last != 0u ? x.yx : x;
  }

  METAL_FUNC void store(FftColumn column, uint r, float2 x) const {
    const uint position = column.phase + r * p.out_spacing;
    if (p.output.limit != 0u && position >= p.output.limit) return;
    if (p.output.swap_first != 0u) x = x.yx;
    if (p.output.factor == kFftByChirp) x = complex_product(x, chirp(position, p.chirp));
    if (p.output.swap_last != 0u) x = x.yx;
    store_element(out + (column.out + long(r) * p.out_step), x * p.output.scale);
  }

  // Executes one step of radix R. `before` is the product of the preceding radices. The step reads from `from` and
  // writes to `to`, except that the first step reads device memory and the last step writes it.
  template <uint R>
  METAL_FUNC void step(threadgroup float2* to, threadgroup const float2* from, uint before, GroupThread g) const {
    const uint each = p.size / R, total = each * columns;
    const bool loads = before == 1u, stores = before * R == p.size;
    const bool across = loads ? p.in_across != 0u : (stores && p.out_across != 0u);
    for (uint b = g.index; b < total; b += g.count) {
      const uint row = b / (across ? columns : each), rest = b - row * (across ? columns : each);
      const uint c = across ? rest : row, j = across ? row : rest, k = j % before;
      FftColumn where = {0, 0, 0};
      if (loads || stores) where = column(c);
      float2 v[R];
      MPSX_UNROLL
      for (uint r = 0; r < R; ++r) v[r] = loads ? load(where, j + r * each) : from[c * p.pitch + j + r * each];
      if (before > 1u) {
        MPSX_UNROLL
        for (uint r = 1; r < R; ++r) v[r] = complex_product(v[r], root_of_unity(r * k, before * R));
      }
      Butterfly<R>::transform(v);
      const uint at = (j - k) * R + k;
      MPSX_UNROLL
      for (uint r = 0; r < R; ++r) {
        if (stores)
          store(where, at + r * before, v[r]);
        else
          to[c * p.pitch + at + r * before] = v[r];
      }
    }
  }
};

template <typename I, typename O, uint TILE>
kernel void fft_pass(device O* out [[buffer(0)]], device const I* in [[buffer(1)]],
                     device const float2* table [[buffer(2)]], constant FftParams& p [[buffer(3)]],
                     MPSX_GROUP_PARAMETERS) {
  const GroupThread g = MPSX_GROUP_THREAD;
  threadgroup float2 memory[2 * TILE];
  const uint first = g.group.x * p.columns_per_group;
  const FftTile<I, O> tile = {out, in, table, p, first, min(p.columns_per_group, p.columns - first)};
  uint before = 1;
  for (uint s = 0; s < p.stages; ++s) {
    threadgroup float2* to = memory + (s % 2u) * TILE;
    threadgroup const float2* from = memory + (1u - s % 2u) * TILE;
    const uint radix = p.radices[s];
    switch (radix) {
      case 1: tile.template step<1>(to, from, before, g); break;
      case 2: tile.template step<2>(to, from, before, g); break;
      case 3: tile.template step<3>(to, from, before, g); break;
      case 4: tile.template step<4>(to, from, before, g); break;
      case 5: tile.template step<5>(to, from, before, g); break;
      case 7: tile.template step<7>(to, from, before, g); break;
      case 8: tile.template step<8>(to, from, before, g); break;
      case 11: tile.template step<11>(to, from, before, g); break;
      default: tile.template step<13>(to, from, before, g); break;
    }
    before *= radix;
    tg_all_barrier();  // the pass may be in place
  }
}

#define MPSX_FFT(I, O, TAGS)                                    \
  MPSX_KERNEL("fft_pass_" TAGS, fft_pass<I, O, uint(kFftTile)>) \
  MPSX_KERNEL("fft_pass_small_" TAGS, fft_pass<I, O, uint(kFftSmallTile)>)
MPSX_FFT(float2, float2, "c64")
MPSX_FFT(float, float2, "f32_c64")
MPSX_FFT(float2, float, "c64_f32")
