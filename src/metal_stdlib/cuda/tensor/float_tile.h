// Tiles of float operands in shared memory, before tf32_multiplier splits the floats.
#pragma once

namespace mpsx {
// Where the rows of a tile start in their 16-byte chunks. If all rows are aligned, the offsets are 0 at compile time.
template <bool ALIGNED>
struct row_offsets {
  unsigned base = 0, pitch = 0;  // address of the first row and distance of two rows, in bytes
  // The offset of row r in bytes. Rows that are a multiple of four apart have the same offset.
  MPSX_FN unsigned get(unsigned r) const { return ALIGNED ? 0u : (base + r % 4 * pitch) & 15u; }
};

// A tile of W rows (or columns) and 32 steps of k. Each row of the tile has 32 floats along the operand's contiguous
// dimension. If K_MAJOR, this dimension is k, and the tile has W rows. Otherwise, it consists of W / 32 boxes. A box
// has one row for every step of k.
//
// TMA swizzles the 16-byte chunks of a row if BY_TMA. Otherwise, threads copy the aligned 16-byte chunks that contain a
// row, at most nine, so that rows of any alignment can be copied 16 bytes at a time.
template <int W, bool K_MAJOR, bool BY_TMA>
struct float_tile {
  static constexpr unsigned kPitch = BY_TMA ? 128 : 144, kBytes = W * kPitch, kBoxBytes = 32 * kPitch;
  static constexpr int kBoxes = W / 32;  // if not K_MAJOR
  typedef row_offsets<BY_TMA> offsets;

  // Returns where four floats of a row start in it. `offset` is the offset of the row.
  static MPSX_FN unsigned chunk_offset(unsigned row, unsigned chunk, unsigned offset) {
    return BY_TMA ? (chunk ^ (row & 7)) << 4 : chunk * 16 + offset;
  }
  static MPSX_FN unsigned address(unsigned tile, unsigned row, unsigned column, unsigned offset) {
    return tile + row * kPitch + column % 4 * 4 + chunk_offset(row, column / 4, offset);
  }
  // Loads floats chunk * 4 to chunk * 4 + 3 of a row.
  static MPSX_FN word4 load_chunk(unsigned tile, unsigned row, unsigned chunk, unsigned offset) {
    const word4 x = load_shared4(address(tile, row, chunk * 4, 0));
    if constexpr (BY_TMA) return x;
    const word4 y = load_shared4(address(tile, row, chunk * 4 + 4, 0));
    const bool by8 = offset & 8u, by4 = offset & 4u;
    const unsigned a = by8 ? x.z : x.x, b = by8 ? x.w : x.y, c = by8 ? y.x : x.z, d = by8 ? y.y : x.w,
                   e = by8 ? y.z : y.x;
    return word4{by4 ? b : a, by4 ? c : b, by4 ? d : c, by4 ? e : d};
  }

  template <class X>
  static MPSX_FN auto map(const X& source) {
    return operand_map(source, 32, K_MAJOR ? W : 32);
  }
  // Loads the tile that starts at step k and at a row of A (or a column of B). Pixels have an index of four dimensions.
  template <class Row, class K>
  static MPSX_FN void load(unsigned to, const void* map, Row row, K k, unsigned barrier) {
    if constexpr (K_MAJOR) {
      load_box(to, map, k, row, barrier);
    } else {
#pragma unroll
      for (int b = 0; b < kBoxes; ++b) load_box(to + unsigned(b) * kBoxBytes, map, row + b * 32, k, barrier);
    }
  }

  template <class X>
  static MPSX_FN offsets offsets_of(const X& source) {
    if constexpr (!BY_TMA)
      if (has_device_rows(source))
        return {unsigned((unsigned long)source.mpsx_data()), unsigned(source.get_stride(1)) * 4};
    return {};
  }
  // Copies the tile that starts at step k from a tensor with any strides. The copies are complete when the preceding
  // cp.async instructions are.
  template <int THREADS, class X>
  static MPSX_FN void copy(unsigned to, const X& source, int k, int thread) {
    if (has_device_rows(source))
      copy_chunks<THREADS>(to, source, k, thread);
    else
      copy_floats<THREADS>(to, source, k, thread);
  }

 private:
  // Returns the first float of row r of the tile that starts at step k. Sets `count` to the number of floats from there
  // to the end of the tensor's row, or to 0 for a row outside the tensor.
  template <class X>
  static MPSX_FN const float* row_start(const X& source, int r, int k, int& count) {
    const int x = K_MAJOR ? k : r / 32 * 32, y = K_MAJOR ? r : k + r % 32;
    count = y < int(source.get_extent(1)) ? int(source.get_extent(0)) - x : 0;
    return source.mpsx_data() + long(x) * long(source.get_stride(0)) + long(y) * long(source.get_stride(1));
  }
  template <int THREADS, class X>
  static MPSX_FN void copy_chunks(unsigned to, const X& source, int k, int thread) {
    const int chunk = thread % 8;
#pragma unroll 1
    for (int r = thread / 8; r < W; r += THREADS / 8) {
      int count;
      const unsigned long row = (unsigned long)row_start(source, r, k, count);
      const unsigned long from = (row & ~15ul) + unsigned(chunk) * 16;
      const int left = count <= 0 ? 0 : metal::min(count, 32) * 4 + int(row & 15u) - chunk * 16;  // bytes from here
      const unsigned at = to + unsigned(r) * kPitch + unsigned(chunk) * 16;
      copy_async(at, (const void*)from, unsigned(metal::clamp(left, 0, 16)));
      if (chunk == 7) copy_async(at + 16, (const void*)(from + 16), unsigned(metal::max(left - 16, 0)));
    }
  }
  template <int THREADS, class X>
  static MPSX_FN void copy_floats(unsigned to, const X& source, int k, int thread) {
    const bool is_shared = in_shared(source);
    const int column = thread % 32;
#pragma unroll 1
    for (int r = thread / 32; r < W; r += THREADS / 32) {
      int count;
      const float* const row = row_start(source, r, k, count);
      const bool inside = column < count;
      const float* const from = inside ? row + long(column) * long(source.get_stride(0)) : source.mpsx_data();
      const unsigned at = address(to, unsigned(r), unsigned(column), 0);
      if (is_shared)
        store_shared(at, inside ? bits_of(*from) : 0u);
      else
        __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(inside ? 4 : 0)
                         : "memory");
    }
  }
};
}  // namespace mpsx
