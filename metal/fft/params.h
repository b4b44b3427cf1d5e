// Shared by metal/fft/pass.metal and its launcher.
#pragma once

#include "lib/types.h"

enum : uint32_t {
  kFftTile = 2048,      // complex elements in a tile; double-buffered in threadgroup memory (32 KiB)
  kFftSmallTile = 512,  // the smaller tile lets more threadgroups share a core
  kFftAxes = 8,         // maximum number of dimensions of the column index
  kFftStages = 11       // maximum number of radices of a 2048-point transform
};

// How the first pass gets its elements.
enum : uint32_t {
  kFftDirect = 0,
  kFftHermitian = 1,  // loads the first half of a Hermitian-symmetric sequence
  kFftChirp = 2       // computes the convolution kernel of Bluestein's algorithm
};
// The factor applied to each element before or after the transform.
enum : uint32_t { kFftOne = 0, kFftByChirp = 1, kFftByTable = 2 };

// A pass computes a `size`-point DFT of each of many columns. An n-point transform takes one pass, or several passes
// with sizes that multiply to n; see pass.metal.
struct FftParams {
  // Strides of the column index (innermost dimension first), for a column's first element and for its phase.
  int64_t in_stride[kFftAxes], out_stride[kFftAxes];
  uint32_t extent[kFftAxes], phase[kFftAxes];
  uint32_t axes, columns;
  uint32_t columns_per_group, pitch;  // pitch: elements between columns in threadgroup memory
  int64_t in_step, out_step;          // strides between the points of a column
  int64_t in_unit;                    // stride between the elements of the transform's input
  uint32_t size;
  uint32_t radices[kFftStages], stages;
  uint32_t twiddle;  // if nonzero, first multiply point r of a column by exp(-2 pi i r phase / twiddle)
  // Point r of a column is element phase + r * spacing of the whole transform.
  uint32_t in_spacing, out_spacing;
  uint32_t length;       // of the whole transform
  uint32_t source;       // kFftDirect, …
  uint32_t in_limit;     // if nonzero, read elements at or after this position as 0
  uint32_t out_limit;    // if nonzero, don't write elements at or after this position
  uint32_t chirp;        // length of the transform that Bluestein's algorithm computes
  uint32_t in_factor;    // kFftOne, …
  uint32_t out_factor;
  // Swapping real and imaginary parts before and after a transform inverts its direction.
  uint32_t in_swap_first, in_swap_last, out_swap_first, out_swap_last;
  uint32_t in_across, out_across;  // consecutive threads access consecutive columns rather than points
  float scale;
};
