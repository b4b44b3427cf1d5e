// Stacks that one CPU thread switches between.
#pragma once

#include <cstddef>

// Saves the caller's registers on its stack and the stack in `*save`; continues the fiber whose stack is `load`.
extern "C" void mpsx_simt_switch(void** save, void* load) noexcept asm("mpsx_simt_switch");

namespace mpsx::driver::host::simt {

// Stacks of equal size in one mapping, each with a guard page below it. Their tops differ in cache set, since all
// fibers use the same depth.
class Stacks {
 public:
  static constexpr size_t kBytes = size_t(128) << 10;
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();
  void reserve(size_t count);  // throws Error; stacks in use are lost
  // Where the stack of fiber `i` starts, with `entry` as the first thing it runs; `entry` must not return.
  void* start(size_t i, void (*entry)()) const noexcept;
  // Whether `p` is memory of fiber `i`.
  bool holds(size_t i, const void* p) const noexcept {
    const char* base = memory_ + i * stride_;
    return p >= base + guard_ && p < base + stride_;
  }
  // The fiber in whose guard page `p` lies, or -1.
  long overflowed(const void* p) const noexcept;

 private:
  void unmap() noexcept;
  char* memory_ = nullptr;
  size_t count_ = 0, guard_ = 0, stride_ = 0;
};

}  // namespace mpsx::driver::host::simt
