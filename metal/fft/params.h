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

// Additional steps of a transform's first pass on its input, and of its last pass on its output. Exchanging real and
// imaginary parts before and after a transform inverts its direction.
struct FftInput {
  uint32_t source;  // kFftDirect, …
  uint32_t limit;   // not 0: elements from this position on are 0
  uint32_t factor;  // kFftOne, …
  uint32_t swap_first, swap_last;
};
struct FftOutput {
  float scale;
  uint32_t limit;  // not 0: elements from this position on are not written
  uint32_t factor;
  uint32_t swap_first, swap_last;
};

// A pass transforms many columns of `size` points. A transform of n points is one pass, or several passes whose sizes
// multiply to n; see pass.metal.
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
  uint32_t length;  // of the transform
  uint32_t chirp;   // points of the transform that Bluestein's algorithm computes
  FftInput input;
  FftOutput output;
  uint32_t in_across, out_across;  // threads go from column to column, not along one
};
