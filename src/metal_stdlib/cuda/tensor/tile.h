// Tiles of 16-bit operands in shared memory, with a swizzle that wgmma expects (PTX ISA, "Shared Memory Matrix
// Layout"). In rows of 128 bytes, 16-byte chunk c of row r is stored at chunk c ^ (r % 8), and in rows of 64 bytes, at
// chunk c ^ (r / 2 % 4).
#pragma once

namespace mpsx {
// A tile with W rows of A (or columns of B) and 64 steps of k, loaded from device memory. Each row of the tile has
// kRowElements elements along the operand's contiguous dimension. If K_MAJOR, this dimension is k, and the tile has W
// rows. Otherwise, the tile consists of boxes with 64 rows each, one for every step of k.
template <class T, int W, bool K_MAJOR, int THREADS>
struct operand_tile {
  static constexpr int kRowElements = K_MAJOR || W % 64 == 0 ? 64 : 32, kRowChunks = kRowElements / 8;
  static constexpr int kBoxes = K_MAJOR ? 1 : W / kRowElements, kRows = K_MAJOR ? W : 64;
  static_assert(K_MAJOR || kBoxes * kRowElements == W, "complete boxes");
  static constexpr unsigned kRowBytes = unsigned(kRowElements) * 2, kBoxBytes = unsigned(kRows) * kRowBytes,
                            kBytes = unsigned(kBoxes) * kBoxBytes;
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

  // The functions below load a tile from a tensor with any alignment. First, copy_rows() copies the aligned 16-byte
  // chunks that contain a row of the tile, at most kRowChunks + 1, to a row in `raw` memory. Then, shift_rows() moves
  // the elements to the tile. Each thread processes the same chunk of kCopies rows, which are kStep rows apart.
  static constexpr unsigned kRawRow = kRowBytes + 16, kRawBytes = unsigned(kBoxes * kRows) * kRawRow;
  static constexpr int kStep = THREADS / kRowChunks, kTotalRows = kBoxes * kRows,
                       kCopies = (kTotalRows + kStep - 1) / kStep;
  static_assert(kStep % 8 == 0, "all chunks of a thread have the same swizzle");

  // Returns the address of row r of the tile that starts at step k. Sets `count` to the number of elements from there
  // to the end of the tensor's row, or to 0 for a row outside the tensor.
  template <class X>
  static MPSX_FN unsigned long row_address(const X& source, int r, int k, int& count) {
    const int x = K_MAJOR ? k : r / 64 * kRowElements, y = K_MAJOR ? r : k + r % 64;
    count = y < int(source.get_extent(1)) ? int(source.get_extent(0)) - x : 0;
    return (unsigned long)(source.mpsx_data() + long(x) * long(source.get_stride(0)) +
                           long(y) * long(source.get_stride(1)));
  }
  template <class X>
  static MPSX_FN void copy_rows(const X& source, bool contiguous, unsigned raw, int k, int thread) {
    const int chunk = thread % kRowChunks, first = thread / kRowChunks;
    if (!contiguous) return gather_rows(source, raw, k, thread);
#pragma unroll 2  // full unrolling would double the kernel's compile time
    for (int i = 0; i < kCopies; ++i) {
      const int r = first + i * kStep;
      if (kTotalRows % kStep != 0 && r >= kTotalRows) break;
      int count;
      const unsigned long row = row_address(source, r, k, count);
      const unsigned to = raw + unsigned(r) * kRawRow + unsigned(chunk) * 16;
      const unsigned long from = (row & ~15ul) + unsigned(chunk) * 16;
      const long left = long(row) + long(count) * 2 - long(from);
      copy_async(to, (const void*)from, unsigned(left < 0 || count <= 0 ? 0 : left < 16 ? left : 16));
      if (chunk == kRowChunks - 1)
        copy_async(to + 16, (const void*)(from + 16),
                   unsigned(left < 16 || count <= 0 ? 0
                            : left < 32             ? left - 16
                                                    : 16));
    }
  }
  template <class X>
  static MPSX_FN void shift_rows(const X& source, bool contiguous, unsigned raw, unsigned tile, int thread) {
    const int chunk = thread % kRowChunks, first = thread / kRowChunks;
    const int swizzled = chunk ^ (kRowChunks == 8 ? first & 7 : first >> 1 & 3);
    const unsigned to = tile + unsigned(first) * kRowBytes + unsigned(swizzled << 4);
#pragma unroll 2
    for (int i = 0; i < kCopies; ++i) {
      const int r = first + i * kStep;
      if (kTotalRows % kStep != 0 && r >= kTotalRows) break;
      int unused;
      const unsigned offset = contiguous ? unsigned(row_address(source, r, 0, unused)) & 15u : 0u;
      const unsigned from = raw + unsigned(r) * kRawRow + unsigned(chunk) * 16;
      const word4 x = load_shared4(from), y = load_shared4(from + 16);
      // Use scalar variables, because LLVM would keep an array in local memory and index it dynamically.
      const bool by8 = offset & 8u, by4 = offset & 4u;
      const unsigned a = by8 ? x.z : x.x, b = by8 ? x.w : x.y, c = by8 ? y.x : x.z, d = by8 ? y.y : x.w,
                     e = by8 ? y.z : y.x, f = by8 ? y.w : y.y;
      const unsigned r0 = by4 ? b : a, r1 = by4 ? c : b, r2 = by4 ? d : c, r3 = by4 ? e : d, r4 = by4 ? f : e;
      const unsigned bits = (offset & 2u) * 8;
      store_shared(to + unsigned(i * kStep) * kRowBytes,
                   word4{funnel(r0, r1, bits), funnel(r1, r2, bits), funnel(r2, r3, bits), funnel(r3, r4, bits)});
    }
  }

 private:
  static MPSX_FN unsigned funnel(unsigned low, unsigned high, unsigned bits) {
    unsigned word;
    __asm__("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(low), "r"(high), "r"(bits));
    return word;
  }
  // As copy_rows(), for elements that are not contiguous or are in threadgroup memory.
  template <class X>
  static MPSX_FN void gather_rows(const X& source, unsigned raw, int k, int thread) {
    constexpr int kPairs = kRowElements / 2;
#pragma unroll 1
    for (int i = thread; i < kTotalRows * kPairs; i += THREADS) {
      const int r = i / kPairs, first = i % kPairs * 2;
      int count;
      const T* const row = (const T*)row_address(source, r, k, count);
      unsigned word = 0;
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (first + e < count)
          word |= unsigned(metal::as_type<metal::ushort>(T(row[long(first + e) * long(source.get_stride(0))])))
                  << (e * 16);
      store_shared(raw + unsigned(r) * kRawRow + unsigned(first) * 2, word);
    }
  }
};
}  // namespace mpsx
