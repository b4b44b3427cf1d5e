// The NVIDIA version of metal/lib/staged_tiles.h: copies tiles to shared memory with cp.async, in the layout that wgmma
// reads.
#pragma once

namespace mpsx {
#ifdef MPSX_SM90
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

template <class Scope, class T, unsigned ROWS, unsigned COLUMNS, unsigned BUFFERS>
class staged_tiles {
  static_assert(sizeof(T) == 2 && COLUMNS % 64 == 0, "staged_tiles: expected 16-bit elements and whole boxes");
  typedef right_operand<T, int(ROWS), int(COLUMNS), true, scope_size<Scope>::threads> operand;

 public:
  template <class X>
  MPSX_FN void load(unsigned buffer, const X& source) const {
    if (source.get_extent(1) > 0)  // otherwise no kernel uses the tile
      operand::copy(source, address(buffer), scope_thread<Scope>(),
                    [](unsigned to, const T* from, int elements) __attribute__((always_inline)) {
                      copy_async(to, from, elements < 0 ? 0 : elements < 8 ? unsigned(elements) * 2 : 16);
                    });
    copy_async_commit();
  }
  template <unsigned PENDING>
  MPSX_FN void wait() const {
    copy_async_wait<int(PENDING)>();
    fence_async_proxy();
    scope_barrier<Scope>();
  }
  template <class X>
  MPSX_FN staged_tile<T> tile(unsigned buffer, const X&) const {
    return {address(buffer)};
  }

 private:
  static MPSX_FN unsigned address(unsigned buffer) {
    return staging_memory<Scope, operand::kBytes * BUFFERS>() + buffer * operand::kBytes;
  }
};
#else
template <class Scope, class T, unsigned ROWS, unsigned COLUMNS, unsigned BUFFERS>
class staged_tiles {
 public:
  template <class X>
  MPSX_FN void load(unsigned, const X&) const {}
  template <unsigned PENDING>
  MPSX_FN void wait() const {
    scope_barrier<Scope>();
  }
  template <class X>
  MPSX_FN X tile(unsigned, const X& source) const {
    return source;
  }
};
#endif
}  // namespace mpsx
