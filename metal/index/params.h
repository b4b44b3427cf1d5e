#pragma once

#include "lib/shared.h"

// Rows picked by an index: out[o][k][:] = in[o][index[k]][:], each row `row` neighbouring elements.
struct RowsParams {
  int64_t size;        // of the indexed dimension
  int64_t outer;       // elements between the blocks o of the indexed tensor
  int64_t pitch;       // elements between its rows
  uint32_t count;      // of the index
  uint32_t row;
  uint32_t dimension;  // named in errors
  uint32_t negative;   // whether indices below zero count from the end
};

// An index to be checked.
struct CheckParams {
  int64_t size, count;
  uint32_t dimension, negative;  // as in RowsParams
};

// Rows of one tensor put into a wider one.
struct CatParams {
  int64_t pitch;   // elements between rows of the output
  uint32_t row;    // elements of a row of the input
};
