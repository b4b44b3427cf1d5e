// Tiles of 16-bit operands in shared memory, with a swizzle that wgmma expects (PTX ISA, "Shared Memory Matrix
// Layout"). In rows of 128 bytes, 16-byte chunk c of row r is stored at chunk c ^ (r % 8), and in rows of 64 bytes, at
// chunk c ^ (r / 2 % 4).
#pragma once

namespace mpsx {
// A tile with W rows of A (or columns of B) and 64 steps of k, loaded from device memory. Each row of the tile has
// kRowElements elements along the operand's contiguous dimension. If K_MAJOR, this dimension is k, and the tile has W
// rows. Otherwise, the tile consists of boxes with 64 rows each, one for every step of k.
template <int W, bool K_MAJOR>
struct operand_tile {
  static constexpr bool kKMajor = K_MAJOR;
  static constexpr int kRowElements = K_MAJOR || W % 64 == 0 ? 64 : 32, kRowChunks = kRowElements / 8;
  static constexpr int kBoxes = K_MAJOR ? 1 : W / kRowElements, kRows = K_MAJOR ? W : 64;
  static_assert(K_MAJOR || kBoxes * kRowElements == W, "complete boxes");
  static constexpr unsigned kRowBytes = unsigned(kRowElements) * 2, kBoxBytes = unsigned(kRows) * kRowBytes,
                            kBytes = unsigned(kBoxes) * kBoxBytes,
                            kRawBytes = unsigned(kBoxes * kRows) * (kRowBytes + 16);  // for row_copies
  // Added to a matrix descriptor, this advances it by 16 steps of k.
  static constexpr unsigned long kNextK = K_MAJOR ? 2 : kRowBytes;
  static constexpr swizzle_mode kSwizzle = kRowBytes == 128 ? swizzle_mode::bytes128 : swizzle_mode::bytes64;

  // Returns a matrix descriptor that starts at row (or column) `at` of the tile. `at` must be a multiple of 8 if
  // K_MAJOR, and of kRowElements otherwise.
  static MPSX_FN unsigned long descriptor(unsigned tile, int at) {
    return K_MAJOR ? matrix_descriptor(tile + unsigned(at) * 128, 16, 1024, kSwizzle)
                   : matrix_descriptor(tile + unsigned(at) / unsigned(kRowElements) * kBoxBytes, kBoxBytes,
                                       8 * kRowBytes, kSwizzle);
  }

  template <class X>
  static MPSX_FN auto map(const X& source) {
    return operand_map(source, unsigned(kRowElements), unsigned(kRows), kSwizzle);
  }
  // Loads the tile that starts at step k and at a row of A (or a column of B). Pixels have an index of four dimensions.
  // `rest` has load_box()'s other arguments: the mbarrier, and before it the matrix of a batch, or after it the
  // receivers.
  template <class Row, class K, class... Rest>
  static MPSX_FN void load(unsigned tile, const void* map, Row row, K k, Rest... rest) {
    if constexpr (K_MAJOR) {
      load_box(tile, map, k, row, rest...);
    } else {
#pragma unroll
      for (int b = 0; b < kBoxes; ++b)
        load_box(tile + unsigned(b) * kBoxBytes, map, row + b * kRowElements, k, rest...);
    }
  }

  // One of COUNT equal parts of the tile, which COUNT threadgroups of a cluster load for each other: some rows of every
  // box, because boxes of fewer elements per row would have another swizzle.
  template <int COUNT>
  struct part {
    static constexpr int kRows = operand_tile::kRows / COUNT;
    static_assert(kRows * COUNT == operand_tile::kRows && kRows % 8 == 0, "the swizzle repeats after eight rows");
    template <class X>
    static MPSX_FN matrix_map map(const X& source) {
      matrix_map map = operand_tile::map(source);
      map.box[1] = unsigned(kRows);
      return map;
    }
    // Loads part `index` as operand_tile::load() loads the tile.
    template <class... Rest>
    static MPSX_FN void load(unsigned tile, const void* map, int row, int k, int index, Rest... rest) {
      operand_tile::load(tile + unsigned(index * kRows) * kRowBytes, map, K_MAJOR ? row + index * kRows : row,
                         K_MAJOR ? k : k + index * kRows, rest...);
    }
  };
};
}  // namespace mpsx
