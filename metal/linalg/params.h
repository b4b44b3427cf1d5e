// Block sizes and parameters of the linear algebra kernels, shared with launchers.
#pragma once

#include "lib/types.h"

// Block sizes. A triangular block and a tile of right-hand sides together fit in 32 KiB, the threadgroup memory that
// every GPU has. Complex blocks have half as many rows as real ones.
enum : uint32_t {
  kFloatBlock = 64,    // rows of a real diagonal block
  kComplexBlock = 32,  // rows of a complex diagonal block
  kSolveColumns = 32,  // right-hand sides per threadgroup
  kPanel = 32,         // columns of an LU or QR panel
  kPanelThreads = 1024,
  kSums = 8,          // rows whose dot products a triangular solve accumulates at a time
  kTileBytes = 16640  // size limit for factoring a matrix in threadgroup memory (64 x 65 floats)
};

// Tile sizes of the Cholesky kernels. A panel and the staged columns of the previous panel must fit in threadgroup
// memory together: (64 + depth) columns of (64 + rows + 4) floats.
enum : uint32_t {
  kCholeskyRows = 32,  // rows below the diagonal block that each threadgroup factors; 16 also works
  // Columns of the previous panel that are staged at a time to update the panel. Use 32 if kCholeskyRows is 16.
  kCholeskyPanelDepth = 16,
  kCholeskyDepth = 16,  // columns of the previous panel that are staged at a time to update the trailing matrix
  // At least one thread per 4 x 4 tile on or below the diagonal of a 96 x 64 panel (264 tiles). Use 256 if
  // kCholeskyRows is 16.
  kCholeskyThreads = 288
};

// Strides of a batch of matrices, in elements.
struct MatrixStrides {
  int64_t row, column, batch;
};

// Parameters of one step of a blocked Cholesky factorization. The panel's diagonal block starts at row `offset`.
struct CholeskyParams {
  MatrixStrides a;
  MatrixStrides diagonal;  // where the factor of the diagonal block is stored
  uint32_t n;              // rows of the matrix
  uint32_t offset;
  // Number of threadgroups that factor the panel. All further threadgroups update the trailing matrix.
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

// Parameters for factoring a rows x columns submatrix that starts at row `offset` and column `offset`.
struct LuParams {
  MatrixStrides a;
  int64_t pivots;  // stride between the pivots of consecutive matrices
  uint32_t rows, columns;
  uint32_t offset;
  uint32_t unused;
};

// Parameters for applying a panel's row swaps to all columns outside the panel. The panel is `panel` columns wide and
// starts at row `offset` and column `offset`.
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
  uint32_t pivots, size;  // number of pivots and length of the permutation, per matrix
};

struct QrParams {
  MatrixStrides a, v;
  int64_t tau, t;  // strides between consecutive matrices
  uint32_t rows, columns;
  uint32_t keeps_block;  // whether to store v and t
  uint32_t unused;
};

struct ReflectorParams {
  MatrixStrides v;
  int64_t tau;  // stride between consecutive matrices
  uint32_t rows, columns;
};
