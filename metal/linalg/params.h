// Shared by the linear algebra kernels and their launchers.
#pragma once

#include "lib/types.h"

// Block sizes. A triangular block and a tile of right-hand sides fit in the 32 KiB of threadgroup memory that every
// GPU has. Complex blocks have half as many rows.
enum : uint32_t {
  kFloatBlock = 64,    // rows of a real diagonal block
  kComplexBlock = 32,  // rows of a complex diagonal block
  kSolveColumns = 32,  // right-hand sides per threadgroup
  kPanel = 32,         // columns of an LU or QR panel
  kPanelThreads = 1024,
  kSums = 8,           // rows of dot products that a solve accumulates at a time
  kTileBytes = 16640   // maximum size of a matrix that is factored in threadgroup memory: 64 x 65 floats
};

// A Cholesky panel and the staged columns of the previous panel fit in threadgroup memory: (64 + depth) columns of
// (64 + rows + 4) floats.
enum : uint32_t {
  kCholeskyRows = 32,       // rows below the diagonal block that a threadgroup solves for; 16 also works
  kCholeskyPanelDepth = 16, // columns of the previous panel to stage for the next panel; 32 with 16 rows
  kCholeskyDepth = 16,      // columns of the previous panel to stage for a tile of the trailing matrix
  kCholeskyThreads = 288    // one per 4 x 4 tile on or below the diagonal of a 96 x 64 panel (264); 256 with 16 rows
};

// Strides of a batch of matrices, in elements.
struct MatrixStrides {
  int64_t row, column, batch;
};

// One step of a blocked Cholesky factorization. The diagonal block of the panel starts at row `offset`.
struct CholeskyParams {
  MatrixStrides a;
  MatrixStrides diagonal;  // destination of the diagonal block's factor
  uint32_t n;              // rows of the matrix
  uint32_t offset;
  uint32_t panel_tiles;    // threadgroups of the panel, which come first; the rest update the trailing matrix
  uint32_t unused;
};

// Solves op(A) X = B in place in B.
struct TriangularParams {
  MatrixStrides a, b;
  uint32_t n, columns;
  uint32_t upper, unit, conjugate;
  uint32_t unused;
};

// Columns [offset, offset + columns) of a matrix, starting at row `offset`: a rows x columns submatrix.
struct LuParams {
  MatrixStrides a;
  int64_t pivots;  // stride between matrices
  uint32_t rows, columns;
  uint32_t offset;
  uint32_t unused;
};

// Row exchanges of the panel of `panel` columns at `offset`, in all columns outside the panel.
struct LuSwapParams {
  MatrixStrides a;
  int64_t pivots;
  uint32_t offset, panel, columns;
  uint32_t unused;
};

struct LuSolveParams {
  MatrixStrides lu, b;
  int64_t pivots;
  uint32_t n, columns;
  uint32_t transposed, conjugate;
};

struct PermutationParams {
  uint32_t pivots, size;  // per matrix
};

struct QrParams {
  MatrixStrides a, v;
  int64_t tau, t;  // strides between matrices
  uint32_t rows, columns;
  uint32_t keeps_block;  // whether to store v and t
  uint32_t unused;
};

struct ReflectorParams {
  MatrixStrides v;
  int64_t tau;  // stride between matrices
  uint32_t rows, columns;
};
