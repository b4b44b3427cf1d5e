// Tiles of float operands in shared memory, before tf32_multiplier splits the floats.
#pragma once

namespace mpsx {
// A tile of W rows (or columns) and 32 steps of k. Each row of the tile has 32 floats along the operand's contiguous
// dimension. If K_MAJOR, this dimension is k, and the tile has W rows. Otherwise, it consists of W / 32 boxes. A box
// has one row for every step of k. The 16-byte chunks of a row are swizzled as TMA does.
template <int W, bool K_MAJOR>
struct float_tile {
  static constexpr unsigned kPitch = 128, kBytes = W * kPitch, kBoxBytes = 32 * kPitch;
  static constexpr int kBoxes = W / 32;  // if not K_MAJOR

  // Returns where a 16-byte chunk of a row starts in it.
  static MPSX_FN unsigned chunk_offset(unsigned row, unsigned chunk) { return (chunk ^ (row & 7)) << 4; }
  static MPSX_FN unsigned address(unsigned tile, unsigned row, unsigned column) {
    return tile + row * kPitch + column % 4 * 4 + chunk_offset(row, column / 4);
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

  // Stores what copy() must know about a tensor in shared memory, at `to`. Held in registers, these values would slow
  // down the main loop.
  template <class X>
  static MPSX_FN void describe(unsigned to, const X& source) {
    const unsigned long data = (unsigned long)source.mpsx_data(),
                        stride[2] = {(unsigned long)(source.get_stride(0)) * 4,
                                     (unsigned long)(source.get_stride(1)) * 4};
    store_shared(to, word4{unsigned(data), unsigned(data >> 32), unsigned(source.get_extent(0)),
                           unsigned(source.get_extent(1))});
    store_shared(to + 16,
                 word4{unsigned(stride[0]), unsigned(stride[0] >> 32), unsigned(stride[1]), unsigned(stride[1] >> 32)});
  }
  // Starts copying the tile that begins at step k, from a tensor that TMA cannot read: with rows of any alignment,
  // floats of any stride, or in threadgroup memory. Each lane of a warp copies one float of a row, because larger
  // copies need aligned addresses. `description` is the address that describe() stored to.
  template <int THREADS>
  static MPSX_FN void copy(unsigned to, unsigned description, int k, int thread) {
    const word4 first = load_shared4(description), second = load_shared4(description + 16);
    const unsigned long data = first.x | (unsigned long)first.y << 32;
    const unsigned long stride[2] = {second.x | (unsigned long)second.y << 32,
                                     second.z | (unsigned long)second.w << 32};
    const int lane = thread % 32;
    const int left = K_MAJOR ? k : 0, top = K_MAJOR ? 0 : k;  // where the tile starts in the tensor
    constexpr int kRows = K_MAJOR ? W : 32;                   // of a box
#pragma unroll 1
    for (int box = 0; box < W / kRows; ++box) {
      const int x = left + box * 32 + lane, rows = x < int(first.z) ? int(first.w) - top : 0;
      const unsigned long column = data + (unsigned long)x * stride[0] + (unsigned long)top * stride[1];
      const unsigned box_start = to + unsigned(box) * kBoxBytes;
      if (__nvvm_isspacep_shared((const void*)data))
        copy_rows<kRows, THREADS, 1>(box_start, column, stride[1], rows, thread, store_float);
      else
        copy_rows<kRows, THREADS, 4>(box_start, column, stride[1], rows, thread, start_copy);
    }
  }

 private:
  template <int ROWS, int THREADS, int UNROLL, class F>
  static MPSX_FN void copy_rows(unsigned to, unsigned long column, unsigned long stride, int rows, int thread, F copy) {
    constexpr int kWarps = THREADS / 32;
    unsigned long from = column + (unsigned long)(thread / 32) * stride;
    MPSX_UNROLL_BY(UNROLL)
    for (int i = 0; i < (ROWS + kWarps - 1) / kWarps; ++i, from += stride * kWarps) {
      const int r = thread / 32 + i * kWarps;
      if (ROWS % kWarps == 0 || r < ROWS) copy(address(to, unsigned(r), unsigned(thread) % 32), from, r < rows);
    }
  }
  // Copies a float, or zero.
  static MPSX_FN void store_float(unsigned to, unsigned long from, bool exists) {
    store_shared(to, exists ? *(const unsigned*)from : 0u);
  }
  static MPSX_FN void start_copy(unsigned to, unsigned long from, bool exists) {
    __asm__ volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(exists ? 4 : 0)
                     : "memory");
  }
};
}  // namespace mpsx
