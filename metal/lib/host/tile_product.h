// The tiles of a product by one thread: as large as the launcher says, in blocks that registers hold.

// Element (row, column) of a matrix in memory, of any strides.
template <typename T>
struct MatrixSource {
  device const T* data;
  long row_stride, column_stride;
  uint rows, columns;

  void stage(threadgroup float* to, uint stride, uint row, uint column, uint height, uint width, GroupThread g) const {
    device const T* from = data + (long(row) * row_stride + long(column) * column_stride);
    const uint down = row < rows ? min(height, rows - row) : 0, right = column < columns ? min(width, columns - column) : 0;
    if (column_stride == 1) {
      for (uint r = 0; r < down; ++r) {
        device const T* line = from + long(r) * row_stride;
        threadgroup float* target = to + ulong(r) * stride;
        MPSX_VECTORIZE
        for (uint c = 0; c < right; ++c) target[c] = float(line[c]);
      }
    } else {
      // A few columns at a time: both sides then stay in the cache.
      for (uint first = 0; first < right; first += 16) {
        const uint last = min(first + 16u, right);
        for (uint r = 0; r < down; ++r) {
          device const T* line = from + long(r) * row_stride;
          threadgroup float* target = to + ulong(r) * stride;
          for (uint c = first; c < last; ++c) target[c] = float(line[long(c) * column_stride]);
        }
      }
    }
    for (uint r = 0; r < down; ++r)
      for (uint c = right; c < width; ++c) to[ulong(r) * stride + c] = 0.0f;
    for (uint r = down; r < height; ++r)
      for (uint c = 0; c < width; ++c) to[ulong(r) * stride + c] = 0.0f;
  }
};

inline Tile tile_at(uint row, uint column, uint height, uint width) {
  return {row * height, column * width, height, width, width + kWidePad};
}

// A block of registers: vectors of a compiler's own, since arrays of floats end up in memory.
typedef float WideLanes __attribute__((vector_size(64), aligned(4)));

inline void wide_block(threadgroup const float* a, uint a_stride, threadgroup const float* b, uint stride, uint depth,
                       threadgroup float* out, uint out_stride) {
#pragma clang fp contract(fast)
  WideLanes sum[kWideRowStep][2];
#pragma unroll
  for (uint i = 0; i < kWideRowStep; ++i) sum[i][0] = WideLanes{}, sum[i][1] = WideLanes{};
  for (uint k = 0; k < depth; ++k) {
    const WideLanes y0 = *(const WideLanes*)(b + ulong(k) * stride), y1 = *(const WideLanes*)(b + ulong(k) * stride + 16);
#pragma unroll
    for (uint i = 0; i < kWideRowStep; ++i) {
      const float x = a[i * a_stride + k];
      sum[i][0] += x * y0;
      sum[i][1] += x * y1;
    }
  }
#pragma unroll
  for (uint i = 0; i < kWideRowStep; ++i) {
    *(WideLanes*)(out + ulong(i) * out_stride) += sum[i][0];
    *(WideLanes*)(out + ulong(i) * out_stride + 16) += sum[i][1];
  }
}

// Rows and columns are multiples of the block's.
inline void block_product(threadgroup float* out, uint out_stride, threadgroup const float* a, uint a_stride,
                          threadgroup const float* b, uint b_stride, uint rows, uint columns, uint depth, GroupThread) {
  for (uint j = 0; j < columns; j += kWideColumnStep)
    for (uint i = 0; i < rows; i += kWideRowStep)
      for (uint from = 0; from < depth; from += kTileSum)
        wide_block(a + ulong(i) * a_stride + from, a_stride, b + ulong(from) * b_stride + j, b_stride,
                   min(uint(kTileSum), depth - from), out + ulong(i) * out_stride + j, out_stride);
}

template <typename A, typename B>
inline void tile_product(A a, B b, uint depth, Tile tile, threadgroup float* memory, GroupThread g) {
  const uint stride = tile.stride;
  threadgroup float* left = memory + ulong(tile.rows) * stride;
  threadgroup float* right = left + tile.rows * kWideDepth;
  for (uint i = 0; i < tile.rows * stride; ++i) memory[i] = 0.0f;
  for (uint k = 0; k < depth; k += kWideDepth) {
    const uint deep = min(uint(kWideDepth), depth - k);
    a.stage(left, kWideDepth, tile.row, k, tile.rows, deep, g);
    b.stage(right, stride, k, tile.column, deep, tile.columns, g);
    block_product(memory, stride, left, kWideDepth, right, stride, tile.rows, tile.columns, deep, g);
  }
}

template <typename Finish>
inline void tile_finish(Finish finish, uint rows, uint columns, Tile tile, threadgroup const float* memory,
                        GroupThread) {
  const uint down = min(tile.rows, rows - tile.row), right = min(tile.columns, columns - tile.column);
  for (uint r = 0; r < down; ++r) {
    threadgroup const float* line = memory + ulong(r) * tile.stride;
    MPSX_VECTORIZE
    for (uint c = 0; c < right; ++c) finish.put(tile.row + r, tile.column + c, line[c]);
  }
}
