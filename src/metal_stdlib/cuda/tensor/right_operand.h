// The right operand of a wgmma operation in shared memory.
#pragma once

namespace mpsx {
// The copy of the right operand: `rows` rows of 128 bytes per box of 64 elements, with the 128-byte swizzle of tile.h.
// With K_MAJOR, a row is a column of the operation, contiguous along k. Otherwise a row is a step of k.
template <class T, int N, int K, bool K_MAJOR, int THREADS>
struct right_operand {
  static constexpr int kRows = K_MAJOR ? N : K, kRowChunks = (K_MAJOR ? K : N) / 8;  // chunks of 8 elements
  static constexpr int kBoxes = (kRowChunks + 7) / 8, kChunks = kRows * kRowChunks;
  static constexpr unsigned kBoxBytes = unsigned(kRows) * 128, kBytes = kBoxBytes * unsigned(kBoxes);

  // Returns the matrix descriptor of 16 steps of k. Its lowest field is the address in units of 16 bytes.
  static MPSX_FN unsigned long descriptor(unsigned memory, int step) {
    const unsigned long first = matrix_descriptor(memory, K_MAJOR ? 16 : kBoxBytes, 1024);
    const unsigned offset = K_MAJOR ? unsigned(step / 4) * kBoxBytes + unsigned(step % 4) * 32 : unsigned(step) * 2048;
    return (first & ~0xfffffffful) | (unsigned(first) + offset / 16);
  }
  // All threads of the scope must call this. Elements outside the extents are zero.
  template <class X>
  static MPSX_FN void copy(const X& source, unsigned memory, int thread) {
    const int columns = int(source.get_extent(0)), rows = int(source.get_extent(1));
    const bool aligned = source.get_stride(0) == 1 && long(source.get_stride(1)) * long(sizeof(T)) % 16 == 0 &&
                         (unsigned long)source.mpsx_data() % 16 == 0;
#pragma unroll
    for (int i = 0; i < (kChunks + THREADS - 1) / THREADS; ++i) {
      const int at = i * THREADS + thread, row = at / kRowChunks, chunk = at % kRowChunks;
      if (kChunks % THREADS != 0 && at >= kChunks) break;
      const T* const line = source.mpsx_data() + long(row < rows ? row : 0) * long(source.get_stride(1));
      const int elements = row < rows ? columns - chunk * 8 : 0;
      const unsigned to =
          memory + unsigned(chunk / 8) * kBoxBytes + unsigned(row) * 128 + unsigned((chunk % 8 ^ (row & 7)) << 4);
      if (aligned)
        store_shared(to, elements >= 8 ? *(const word4*)(line + chunk * 8) : gather(line + chunk * 8, 1, elements));
      else
        store_shared(to,
                     gather(line + long(chunk) * 8 * long(source.get_stride(0)), long(source.get_stride(0)), elements));
    }
  }

 private:
  static MPSX_FN word4 gather(const T* from, long stride, int count) {
    word4 words = {0, 0, 0, 0};
#pragma unroll
    for (int e = 0; e < 8; ++e)
      if (e < count) words[e / 2] |= unsigned(metal::as_type<metal::ushort>(T(from[e * stride]))) << (e % 2 * 16);
    return words;
  }
};

// A tile in shared memory, which only register_multiply() accepts.
template <class T>
struct staged_tile {
  typedef T value_type;
  static constexpr size_t get_rank() { return 2; }
  unsigned address;
};
template <class T>
struct is_tensor<staged_tile<T>> {
  static constexpr bool value = true;
};
template <class T>
struct element_of<staged_tile<T>> {
  typedef T type;
};
}  // namespace mpsx
