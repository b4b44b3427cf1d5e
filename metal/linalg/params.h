// Shared by the kernels of metal/linalg and their launchers.
#pragma once

#include "lib/shared.h"

// Sizes of blocks. A block of a triangular matrix and a tile of right-hand sides fit into the 32 KiB of threadgroup
// memory that every GPU has; complex blocks have half the rows.
enum : uint32_t {
  kFloatBlock = 64,    // rows of a diagonal block, real
  kComplexBlock = 32,  // complex
  kSolveColumns = 32,  // right-hand sides per threadgroup
  kPanel = 32,         // columns of a panel of LU and QR
  kPanelThreads = 1024,
  kSums = 8,           // rows of dot products that a solve accumulates at a time
  kTileBytes = 16640   // a matrix of at most this size is factored in threadgroup memory, 64 x 65 floats
};

// The panel of a Cholesky factorization and the columns of the previous panel that are staged at a time fit into
// threadgroup memory: (64 + depth) columns of (64 + rows + 4) floats.
enum : uint32_t {
  kCholeskyRows = 32,       // rows below the diagonal block that a threadgroup solves for; or 16
  kCholeskyPanelDepth = 16, // columns of the previous panel, for the next panel; or 32 with 16 rows
  kCholeskyDepth = 16,      // the same for a tile of the trailing matrix
  kCholeskyThreads = 288    // one per 4 x 4 tile on or below the diagonal of a 96 x 64 panel (264); 256 with 16 rows
};

// Strides of a batch of matrices, in elements.
struct MatrixStrides {
  int64_t row, column, batch;
};

// One step of a blocked Cholesky factorization: the panel whose diagonal block starts at row `offset`.
struct CholeskyParams {
  MatrixStrides a;
  MatrixStrides diagonal;  // where the factor of the diagonal block goes
  uint32_t n;              // rows of the matrix
  uint32_t offset;
  uint32_t panel_tiles;    // threadgroups of the panel, which come first; the others update the trailing matrix
  uint32_t unused;
};

// Solves op(A) X = B in place in B.
struct TriangularParams {
  MatrixStrides a, b;
  uint32_t n, columns;
  uint32_t upper, unit, conjugate;
  uint32_t unused;
};

// Columns [offset, offset + columns) of a matrix, from row `offset` on: rows x columns.
struct LuParams {
  MatrixStrides a;
  int64_t pivots;  // per matrix
  uint32_t rows, columns;
  uint32_t offset;
  uint32_t unused;
};

// Row exchanges of a panel of `panel` columns at `offset`, in the `columns` columns of the matrix outside of it.
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
  int64_t tau, t;  // per matrix
  uint32_t rows, columns;
  uint32_t keeps_block;  // write v and t
  uint32_t unused;
};

struct ReflectorParams {
  MatrixStrides v;
  int64_t tau;  // per matrix
  uint32_t rows, columns;
};
