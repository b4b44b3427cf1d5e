// Parameters of metal/fft/pass.metal, shared with its launcher.
#pragma once

#include "lib/types.h"

enum : uint32_t {
  kFftTile = 2048,      // complex numbers per tile; two tiles fit in threadgroup memory (32 KiB)
  kFftSmallTile = 512,  // a smaller tile, so that more threadgroups share a GPU core
  kFftAxes = 8,         // maximum number of dimensions in a column index
  kFftStages = 11       // maximum number of stages; enough for 2048 points
};

// Where the first pass gets the elements to transform.
enum : uint32_t {
  kFftDirect = 0,
  kFftHermitian = 1,  // loads half of a Hermitian-symmetric sequence and mirrors it
  kFftChirp = 2       // computes the convolution kernel of Bluestein's algorithm
};
// Factors that multiply the elements before or after the transform.
enum : uint32_t { kFftOne = 0, kFftByChirp = 1, kFftByTable = 2 };

// Extra work before the first pass and after the last pass of a transform. Swapping the real and imaginary parts both
// before and after a transform inverts its direction.
struct FftInput {
  uint32_t source;  // one of kFftDirect, kFftHermitian, kFftChirp
  uint32_t limit;   // if nonzero, elements from this index on are treated as 0
  uint32_t factor;  // one of kFftOne, kFftByChirp, kFftByTable
  uint32_t swap_first, swap_last;
};
struct FftOutput {
  float scale;
  uint32_t limit;  // if nonzero, elements from this index on are not stored
  uint32_t factor;
  uint32_t swap_first, swap_last;
};

// Parameters of one pass. A pass transforms many columns of `size` points. A transform of n points consists of one
// pass, or of several passes whose sizes multiply to n (see pass.metal).
struct FftParams {
  // For each dimension of the column index, innermost first: the strides between the first elements of columns, the
  // extent, and the stride of the columns' phase.
  int64_t in_stride[kFftAxes], out_stride[kFftAxes];
  uint32_t extent[kFftAxes], phase[kFftAxes];
  uint32_t axes, columns;
  uint32_t columns_per_group, pitch;  // pitch: distance between columns in threadgroup memory
  int64_t in_step, out_step;          // strides between the points of a column
  int64_t in_unit;                    // stride between consecutive input elements of the transform
  uint32_t size;
  uint32_t radices[kFftStages], stages;
  uint32_t twiddle;  // if nonzero, first multiply point r of a column by exp(-2 pi i r phase / twiddle)
  // Point r of a column is element phase + r * spacing of the full transform.
  uint32_t in_spacing, out_spacing;
  uint32_t length;  // number of points in the full transform
  uint32_t chirp;   // number of points that Bluestein's algorithm computes
  FftInput input;
  FftOutput output;
  // Whether consecutive threads process consecutive columns, rather than consecutive points of a column.
  uint32_t in_across, out_across;
};
