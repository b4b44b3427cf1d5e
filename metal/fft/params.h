// Parameters of metal/fft/pass.metal, shared with its launcher.
#pragma once

#include "lib/types.h"

enum : uint32_t {
  kFftTile = 2048,      // complex elements in a tile; double-buffered in threadgroup memory (32 KiB)
  kFftSmallTile = 512,  // smaller, to let more threadgroups share a GPU core
  kFftAxes = 8,         // maximum number of dimensions of a column index
  kFftStages = 11       // maximum number of stages, enough for 2048 points
};

// How the first pass obtains the elements to transform.
enum : uint32_t {
  kFftDirect = 0,
  kFftHermitian = 1,  // loads only the first half of a Hermitian-symmetric sequence and mirrors it
  kFftChirp = 2       // computes the convolution kernel of Bluestein's algorithm
};
// The factor that multiplies each element before or after the transform.
enum : uint32_t { kFftOne = 0, kFftByChirp = 1, kFftByTable = 2 };

// Extra work at the two ends of a transform: on the input of its first pass and the output of its last pass. Swapping
// real and imaginary parts before and after a transform inverts its direction.
struct FftInput {
  uint32_t source;  // one of kFftDirect, kFftHermitian, kFftChirp
  uint32_t limit;   // if nonzero, elements from this index on are read as 0
  uint32_t factor;  // one of kFftOne, kFftByChirp, kFftByTable
  uint32_t swap_first, swap_last;
};
struct FftOutput {
  float scale;
  uint32_t limit;  // if nonzero, elements from this index on are not stored
  uint32_t factor;
  uint32_t swap_first, swap_last;
};

// Each pass transforms many columns of `size` points. A transform of n points consists of one pass, or of several
// passes whose sizes multiply to n (see pass.metal).
struct FftParams {
  // Per dimension of the column index, innermost first: the strides of a column's first element, the extent, and the
  // stride of the column's phase.
  int64_t in_stride[kFftAxes], out_stride[kFftAxes];
  uint32_t extent[kFftAxes], phase[kFftAxes];
  uint32_t axes, columns;
  uint32_t columns_per_group, pitch;  // pitch: elements between columns in threadgroup memory
  int64_t in_step, out_step;          // strides between the points of a column
  int64_t in_unit;                    // stride between consecutive elements of the transform's input
  uint32_t size;
  uint32_t radices[kFftStages], stages;
  uint32_t twiddle;  // if nonzero, first multiply point r of a column by exp(-2 pi i r phase / twiddle)
  // Point r of a column is element phase + r * spacing of the complete transform.
  uint32_t in_spacing, out_spacing;
  uint32_t length;  // number of points in the complete transform
  uint32_t chirp;   // number of points in the transform that Bluestein's algorithm computes
  FftInput input;
  FftOutput output;
  // Whether consecutive threads process consecutive columns instead of consecutive points of a column.
  uint32_t in_across, out_across;
};
