// The NVIDIA version of metal/lib/staged_tiles.h. On sm_90, TMA loads the tiles into the layout that wgmma reads.
#pragma once

namespace mpsx {
#ifdef MPSX_SM90
// One mbarrier counts the bytes of all loads since the last wait(). Warp 0 requests the loads.
template <class Scope, class T, unsigned ROWS, unsigned COLUMNS, unsigned BUFFERS>
class staged_tiles {
  static_assert(sizeof(T) == 2 && COLUMNS % 64 == 0, "staged_tiles: expected 16-bit elements and whole boxes");
  typedef right_operand<T, int(ROWS), int(COLUMNS), true, scope_size<Scope>::threads> operand;
  static constexpr unsigned kMaps = operand::kBytes * BUFFERS * 2, kBarrier = kMaps + 2 * 128, kSlot = kBarrier + 8;

 public:
  template <class X>
  MPSX_FN void open(const X& first, const X& second) {
    const int thread = scope_thread<Scope>(), warp = thread / 32;
    if (is_open_) {
      wait();
    } else if (thread == 0) {
      mbarrier_init(memory() + kBarrier, 1);
      fence_mbarrier_init();
      store_shared(memory() + kSlot, claim_map_slot());
    }
    scope_barrier<Scope>();
    maps_ = map_slot(warp_uniform(load_shared(memory() + kSlot)));
    // Two warps write the maps at the same time.
    if (warp < 2)
      write_map(memory() + kMaps + unsigned(warp) * 128, maps_ + warp * 128, map(warp == 0 ? first : second));
    scope_barrier<Scope>();
    if (warp == 0) acquire_map(maps_), acquire_map(maps_ + 128);
    rows_[0] = int(first.get_extent(1));
    rows_[1] = int(second.get_extent(1));
    is_open_ = true;
  }
  MPSX_FN void close() {
    wait();
    if (scope_thread<Scope>() == 0) {
      mbarrier_invalidate(memory() + kBarrier);
      release_map_slot(load_shared(memory() + kSlot));
    }
  }
  MPSX_FN void load(unsigned matrix, unsigned buffer, unsigned row) const {
    if (is_first_warp()) request(matrix, buffer, row);
  }
  MPSX_FN void load(unsigned buffer, unsigned row) const {
    if (is_first_warp()) request(0, buffer, row), request(1, buffer, row);
  }
  MPSX_FN void wait() {
    scope_barrier<Scope>();  // before thread 0 arrives, so that no thread still waits for the previous phase
    if (scope_thread<Scope>() == 0) mbarrier_arrive(memory() + kBarrier);
    mbarrier_wait(memory() + kBarrier, parity_);
    parity_ ^= 1;
  }
  template <class X>
  MPSX_FN staged_tile<T> tile(unsigned matrix, unsigned buffer, const X&) const {
    return {address(matrix, buffer)};
  }
  // Returns the 64 rows that this warpgroup multiplies.
  template <class X>
  MPSX_FN staged_tile<T> rows(unsigned matrix, unsigned buffer, const X&) const {
    static_assert(ROWS == 64, "rows: each warpgroup reads a tile");
    if constexpr (scope_size<Scope>::simdgroups == 4) return {address(matrix, buffer)};
    return {address(matrix, buffer + unsigned(warp_uniform(scope_thread<Scope>() / 128)))};
  }
  template <class Multiply, class Left, class X, class Sums>
  MPSX_FN auto start(const Multiply&, const Left& left, unsigned matrix, unsigned buffer, const X& source,
                     Sums& sums) const {
    constexpr auto D = Multiply::descriptor;
    static_assert(uses_register_warpgroups<D, Scope, Left, staged_tile<T>>(), "start: wgmma does not support it");
    float block[Sums::get_capacity()];
    if constexpr (D.mpsx_accumulates()) copy_elements(sums, block);
    const auto started = start_register_multiply<D, Scope>(left, tile(matrix, buffer, source), block);
    copy_elements(block, sums);
    return started;
  }
  template <unsigned PENDING, class Started, class Sums>
  MPSX_FN void finish(const Started& started, Sums& sums) const {
    float block[Sums::get_capacity()];
    copy_elements(sums, block);
    finish_register_multiply<int(PENDING)>(started, block);
    copy_elements(block, sums);
  }

 private:
  static MPSX_FN bool is_first_warp() { return warp_uniform(scope_thread<Scope>() / 32) == 0; }
  MPSX_FN void request(unsigned matrix, unsigned buffer, unsigned row) const {
    if (int(row) >= rows_[matrix]) return;
    mbarrier_expect_bytes(memory() + kBarrier, operand::kBytes);
#  pragma unroll
    for (int b = 0; b < operand::kBoxes; ++b)
      load_box(address(matrix, buffer) + unsigned(b) * operand::kBoxBytes, maps_ + matrix * 128, b * 64, int(row),
               memory() + kBarrier);
  }
  template <class From, class To>
  static MPSX_FN void copy_elements(const From& from, To& to) {
#  pragma unroll
    for (int i = 0; i < int(sizeof(from) / sizeof(float)); ++i) to[i] = from[i];
  }
  template <class X>
  static MPSX_FN matrix_map map(const X& source) {
    return {source.mpsx_data(),
            map_type_of<T>,
            {unsigned(source.get_extent(0)), unsigned(source.get_extent(1))},
            (unsigned long)(source.get_stride(1)) * sizeof(T),
            {64, ROWS}};
  }
  static MPSX_FN unsigned memory() { return staging_memory<Scope, kSlot + 8>(); }
  static MPSX_FN unsigned address(unsigned matrix, unsigned buffer) {
    return memory() + (matrix * BUFFERS + buffer) * operand::kBytes;
  }
  char* maps_ = nullptr;
  int rows_[2] = {};
  unsigned parity_ = 0;
  bool is_open_ = false;
};
#else
template <class Scope, class T, unsigned ROWS, unsigned COLUMNS, unsigned BUFFERS>
class staged_tiles {
 public:
  template <class X>
  MPSX_FN void open(const X&, const X&) const {}
  MPSX_FN void close() const {}
  MPSX_FN void load(unsigned, unsigned, unsigned) const {}
  MPSX_FN void load(unsigned, unsigned) const {}
  MPSX_FN void wait() const { scope_barrier<Scope>(); }
  template <class X>
  MPSX_FN X tile(unsigned, unsigned, const X& source) const {
    return source;
  }
  template <class X>
  MPSX_FN X rows(unsigned, unsigned, const X& source) const {
    return source;
  }
  template <class Multiply, class Left, class X, class Sums>
  MPSX_FN unsigned start(Multiply& multiply, Left& left, unsigned, unsigned, const X& source, Sums& sums) const {
    multiply.run(left, source, sums);
    return 0;
  }
  template <unsigned PENDING, class Sums>
  MPSX_FN void finish(unsigned, Sums&) const {}
};
#endif
}  // namespace mpsx
