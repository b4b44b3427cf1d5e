// Copies tiles from tensors that TMA cannot read: with rows of any alignment, elements of any stride, or in threadgroup
// memory.
#pragma once

namespace mpsx {
// An operand with 16-bit elements, and the shape of its tile (operand_tile). These are values at run time, so that both
// operands share this code. Two copies of it would add 15% to the time that LLVM and ptxas take for a kernel.
//
// A row may start inside a 16-byte chunk, but cp.async copies only whole chunks. So start() copies all chunks that
// overlap the row to `raw` memory, and finish() shifts the elements into the tile. Each of the THREADS threads
// processes one chunk of several rows.
template <int THREADS>
class row_copies {
 public:
  template <class Tile, class X>
  static MPSX_FN row_copies of(const X& source) {
    static_assert(sizeof(typename X::value_type) == 2, "funnel shifts by 16 bits");
    static_assert(Tile::kRowChunks == 8 || Tile::kRowChunks == 4, "the two swizzles");
    row_copies copies;
    copies.data_ = (unsigned long)source.mpsx_data();
    copies.stride_[0] = long(source.get_stride(0)) * 2, copies.stride_[1] = long(source.get_stride(1)) * 2;
    copies.extent_[0] = int(source.get_extent(0)), copies.extent_[1] = int(source.get_extent(1));
    copies.contiguous_ = has_device_rows(source);
    copies.k_major_ = Tile::kKMajor;
    copies.rows_ = Tile::kBoxes * Tile::kRows;
    copies.log2_chunks_ = Tile::kRowChunks == 8 ? 3 : 2;
    return copies;
  }

  // Starts copying the tile that begins at step k.
  MPSX_FN void start(unsigned raw, int k, int thread) const {
    if (!contiguous_) return gather(raw, k, thread);
    const int chunk = chunk_of(thread);
#pragma unroll 2  // full unrolling would double the kernel's compile time
    for (int r = first_row(thread); r < rows_; r += row_step()) {
      int count;
      const unsigned long row = row_address(r, k, count);
      const unsigned to = raw + unsigned(r) * raw_pitch() + unsigned(chunk) * 16;
      const unsigned long from = (row & ~15ul) + unsigned(chunk) * 16;
      const int bytes =
          count <= 0 ? 0 : metal::min(count, 64) * 2 + int(row & 15u) - chunk * 16;  // to the end of the row
      copy_async(to, (const void*)from, unsigned(metal::clamp(bytes, 0, 16)));
      if (chunk == chunks() - 1)
        copy_async(to + 16, (const void*)(from + 16), unsigned(metal::clamp(bytes - 16, 0, 16)));
    }
  }
  // Moves the copied elements to `tile`.
  MPSX_FN void finish(unsigned raw, unsigned tile, int thread) const {
    const int chunk = chunk_of(thread), first = first_row(thread);
    const int swizzled = chunk ^ (log2_chunks_ == 3 ? first & 7 : first >> 1 & 3);  // as row_step() is a multiple of 8
    static_assert(THREADS / 8 % 8 == 0, "all chunks of a thread have the same swizzle");
#pragma unroll 2
    for (int r = first; r < rows_; r += row_step()) {
      int unused;
      const unsigned offset = contiguous_ ? unsigned(row_address(r, 0, unused)) & 15u : 0u;
      const unsigned from = raw + unsigned(r) * raw_pitch() + unsigned(chunk) * 16;
      const word4 x = load_shared4(from), y = load_shared4(from + 16);
      // Use scalar variables, because LLVM would keep an array in local memory and index it dynamically.
      const bool by8 = offset & 8u, by4 = offset & 4u;
      const unsigned a = by8 ? x.z : x.x, b = by8 ? x.w : x.y, c = by8 ? y.x : x.z, d = by8 ? y.y : x.w,
                     e = by8 ? y.z : y.x, f = by8 ? y.w : y.y;
      const unsigned r0 = by4 ? b : a, r1 = by4 ? c : b, r2 = by4 ? d : c, r3 = by4 ? e : d, r4 = by4 ? f : e;
      const unsigned bits = (offset & 2u) * 8;
      store_shared(tile + unsigned((r << log2_chunks_) + swizzled) * 16,
                   word4{funnel(r0, r1, bits), funnel(r1, r2, bits), funnel(r2, r3, bits), funnel(r3, r4, bits)});
    }
  }

 private:
  MPSX_FN int chunks() const { return 1 << log2_chunks_; }
  MPSX_FN int chunk_of(int thread) const { return thread & (chunks() - 1); }
  MPSX_FN int first_row(int thread) const { return thread >> log2_chunks_; }
  MPSX_FN int row_step() const { return THREADS >> log2_chunks_; }
  MPSX_FN unsigned raw_pitch() const { return unsigned(chunks() + 1) * 16; }
  // Returns the address of row r of the tile that starts at step k. Sets `count` to the number of elements from there
  // to the end of the tensor's row, or to 0 for a row outside the tensor.
  MPSX_FN unsigned long row_address(int r, int k, int& count) const {
    const int x = k_major_ ? k : (r / 64) << (log2_chunks_ + 3), y = k_major_ ? r : k + r % 64;
    count = y < extent_[1] ? extent_[0] - x : 0;
    return data_ + (unsigned long)(long(x) * stride_[0] + long(y) * stride_[1]);
  }
  // As start(), for elements that are not contiguous or are in threadgroup memory.
  MPSX_FN void gather(unsigned raw, int k, int thread) const {
    const int log2_pairs = log2_chunks_ + 2;
#pragma unroll 1
    for (int i = thread; i < rows_ << log2_pairs; i += THREADS) {
      const int r = i >> log2_pairs, first = (i & ((1 << log2_pairs) - 1)) * 2;
      int count;
      const unsigned long row = row_address(r, k, count);
      unsigned word = 0;
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (first + e < count)
          word |= unsigned(*(const unsigned short*)(row + (unsigned long)(long(first + e) * stride_[0]))) << (e * 16);
      store_shared(raw + unsigned(r) * raw_pitch() + unsigned(first) * 2, word);
    }
  }
  static MPSX_FN unsigned funnel(unsigned low, unsigned high, unsigned bits) {
    unsigned word;
    __asm__("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(word) : "r"(low), "r"(high), "r"(bits));
    return word;
  }

  unsigned long data_;  // address of the first element
  long stride_[2];      // in bytes
  int extent_[2];       // in elements
  bool contiguous_;     // whether rows are contiguous in device memory
  bool k_major_;
  int rows_;         // of all boxes
  int log2_chunks_;  // of 16 bytes in a row of the tile
};

// Copies of the tiles of one or both operands. `Shape` is a warpgroup_shape.
template <class Shape>
class tile_copies {
  typedef row_copies<Shape::kThreads> rows;
  typedef typename Shape::left left_tile;
  typedef typename Shape::right right_tile;

 public:
  // `raws` is the address of kRaws buffers of `raw_bytes` bytes for the raw rows of a tile.
  template <class A, class B>
  MPSX_FN tile_copies(const A& left, const B& right, const bool (&copied)[2], unsigned raws, unsigned raw_bytes)
      : left_(rows::template of<left_tile>(left)),
        right_(rows::template of<right_tile>(right)),
        first_(copied[0] ? 0 : 1),
        last_(copied[1] ? 1 : 0),
        raws_(raws),
        raw_bytes_(raw_bytes) {}
  // Starts copying tile t, unless there are only `tiles` tiles.
  MPSX_FN void start(int t, int tiles, int thread) const {
    if (t < tiles)
      visit(t, [&](const rows& operand, unsigned raw, int)
                   __attribute__((always_inline)) { operand.start(raw, t * 64, thread); });
    copy_async_commit();
  }
  // Moves tile t to the stage. All threads have finished when this returns.
  MPSX_FN void finish(int t, unsigned stage, int thread) const {
    copy_async_wait<Shape::kRaws - 1>();
    __syncthreads();
    visit(t, [&](const rows& operand, unsigned raw, int i) __attribute__((always_inline)) {
      operand.finish(raw, stage + unsigned(i) * left_tile::kBytes, thread);
    });
    fence_async_proxy();
    __syncthreads();
  }

 private:
  // Calls f for each copied operand with the address of its raw rows.
  template <class F>
  MPSX_FN void visit(int t, F f) const {
    unsigned raw = raws_ + unsigned(t % Shape::kRaws) * raw_bytes_;
#pragma unroll 1
    for (int i = first_; i <= last_; ++i, raw += left_tile::kRawBytes) f(i == 0 ? left_ : right_, raw, i);
  }
  const rows left_, right_;
  const int first_, last_;
  const unsigned raws_, raw_bytes_;
};
}  // namespace mpsx
