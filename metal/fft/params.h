// Shared by metal/fft/pass.metal and its launcher.
#pragma once

#include "lib/shared.h"

enum : uint32_t {
  kFftTile = 2048,      // complex numbers that a pass holds twice in threadgroup memory: 32 KiB
  kFftSmallTile = 512,  // the smaller tile lets more threadgroups share a core
  kFftAxes = 8,         // dimensions of the columns of a pass
  kFftStages = 11       // radices of 2048 points
};

// Sources of the elements of the first pass.
enum : uint32_t {
  kFftDirect = 0,
  kFftHermitian = 1,  // the first half of a Hermitian sequence
  kFftChirp = 2       // the convolution kernel of Bluestein's algorithm, computed instead of loaded
};
// The factor that multiplies each element before or after the transform.
enum : uint32_t { kFftOne = 0, kFftByChirp = 1, kFftByTable = 2 };

// A pass transforms many columns of `size` points. A transform of n points is one pass, or several passes whose sizes
// multiply to n; see pass.metal.
struct FftParams {
  // Strides by which a column's index in each dimension (innermost first) gives its first element and its phase.
  int64_t in_stride[kFftAxes], out_stride[kFftAxes];
  uint32_t extent[kFftAxes], phase[kFftAxes];
  uint32_t axes, columns;
  uint32_t columns_per_group, pitch;  // elements between columns in threadgroup memory
  int64_t in_step, out_step;          // between the points of a column
  int64_t in_unit;                    // between the elements of the transform's input
  uint32_t size;
  uint32_t radices[kFftStages], stages;
  uint32_t twiddle;  // not 0: point r of a column is multiplied by exp(-2 pi i r phase / twiddle) first
  // Positions in the transform of a column's points: phase + r * spacing.
  uint32_t in_spacing, out_spacing;
  uint32_t length;       // of the transform
  uint32_t source;       // kFftDirect, …
  uint32_t in_limit;     // not 0: elements from this position on are 0
  uint32_t out_limit;    // not 0: elements from this position on are not written
  uint32_t chirp;        // points of the transform that Bluestein's algorithm computes
  uint32_t in_factor;    // kFftOne, …
  uint32_t out_factor;
  // Exchanging real and imaginary parts before and after a transform inverts its direction.
  uint32_t in_swap_first, in_swap_last, out_swap_first, out_swap_last;
  uint32_t in_across, out_across;  // threads go from column to column, not along one
  float scale;
};
