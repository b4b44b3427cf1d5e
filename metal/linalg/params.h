// Block sizes and parameters of the linear algebra kernels, shared with launchers.
#pragma once

#include "lib/types.h"

// Block sizes. A triangular block and a tile of right-hand sides together fit in 32 KiB of threadgroup memory, which
// every GPU has. Complex blocks have half as many rows.
enum : uint32_t {
  kFloatBlock = 64,    // rows of a real diagonal block
  kComplexBlock = 32,  // rows of a complex diagonal block
  kSolveColumns = 32,  // right-hand sides per threadgroup
  kPanel = 32,         // columns of an LU or QR panel
  kPanelThreads = 1024,
  kSums = 8,          // rows of dot products that a triangular solve accumulates at a time
  kTileBytes = 16640  // size limit for factoring a matrix in threadgroup memory (64 x 65 floats)
};

// Tile sizes of the Cholesky kernels, chosen so that a panel and the staged columns of the previous panel fit in
// threadgroup memory: (64 + depth) columns of (64 + rows + 4) floats.
enum : uint32_t {
  kCholeskyRows = 32,  // rows below the diagonal block per threadgroup; 16 also works
  // Columns of the previous panel staged at a time to update the panel; 32 if kCholeskyRows is 16.
  kCholeskyPanelDepth = 16,
  kCholeskyDepth = 16,  // columns of the previous panel staged at a time to update a tile of the trailing matrix
  // One per 4 x 4 tile on or below the diagonal of a 96 x 64 panel (264); 256 if kCholeskyRows is 16.
  kCholeskyThreads = 288
};

// Strides of a batch of matrices, in elements.
struct MatrixStrides {
  int64_t row, column, batch;
};

// One step of a blocked Cholesky factorization. The panel's diagonal block starts at row `offset`.
struct CholeskyParams {
  MatrixStrides a;
  MatrixStrides diagonal;  // destination of the diagonal block's factor
  uint32_t n;              // rows of the matrix
  uint32_t offset;
  // Number of threadgroups that factor the panel; the threadgroups after them update the trailing matrix.
  uint32_t panel_tiles;
  uint32_t unused;
};

// Parameters for solving op(A) X = B, which overwrites B with X.
struct TriangularParams {
  MatrixStrides a, b;
  uint32_t n, columns;
  uint32_t upper, unit, conjugate;
  uint32_t unused;
};

// A rows x columns submatrix that starts at row and column `offset`.
struct LuParams {
  MatrixStrides a;
  int64_t pivots;  // stride between matrices
  uint32_t rows, columns;
  uint32_t offset;
  uint32_t unused;
};

// Parameters for applying a panel's row swaps to all columns outside the panel. The panel has `panel` columns and
// starts at row and column `offset`.
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
  uint32_t pivots, size;  // per matrix: number of pivots, length of the permutation
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
