// Stacks that one CPU thread switches between.
#pragma once

#include <cstddef>

// Saves the caller's registers on its stack and the stack in `*save`; continues what saved itself in `load`, or starts
// `entry`, which must not return, on the empty stack `top`.
extern "C" void mpsx_simt_switch(void** save, void* load) noexcept asm("mpsx_simt_switch");
extern "C" void mpsx_simt_start(void** save, void* top, void (*entry)()) noexcept asm("mpsx_simt_start");

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
  void* top(size_t i) const noexcept;  // of the empty stack of fiber `i`
  void* spare() const noexcept { return top(count_ - 1); }
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
