// Stacks that one CPU thread switches between.
#pragma once

#include <cstddef>
#include <cstdint>

// Saves the caller's registers on its stack and the stack in `*save`; continues what saved itself in `load`, or starts
// `entry`, which must not return, on the empty stack `top`.
extern "C" void mpsx_simt_switch(void** save, void* load) noexcept asm("mpsx_simt_switch");
extern "C" void mpsx_simt_start(void** save, void* top, void (*entry)()) noexcept asm("mpsx_simt_start");

namespace mpsx::driver::host::simt {

// Stacks of equal size in one mapping, each with a guard page at its low end. Their tops differ in cache set, since all
// fibers use the same depth. They are aligned to their size, so that code on one finds its owner, in its last word,
// sooner than a variable of the CPU thread.
class Stacks {
 public:
  static constexpr size_t kBytes = size_t(128) << 10;  // the guard page included
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();
  void reserve(size_t count, void* owner);  // throws Error; stacks in use are lost
  // Of the stack that the caller runs on, which must be one of these.
  static void* owner() noexcept {
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    return *reinterpret_cast<void**>((here | (kBytes - 1)) + 1 - sizeof(void*));
  }
  void* top(size_t i) const noexcept;  // of the empty stack of fiber `i`
  void* spare() const noexcept { return top(count_ - 1); }
  // Whether `p` is memory of fiber `i`.
  bool holds(size_t i, const void* p) const noexcept {
    const char* base = memory_ + i * kBytes;
    return p >= base + guard_ && p < base + kBytes;
  }
  // The fiber in whose guard page `p` lies, or -1.
  long overflowed(const void* p) const noexcept;

 private:
  void unmap() noexcept;
  void* mapping_ = nullptr;
  char* memory_ = nullptr;  // the first stack, in the mapping
  size_t count_ = 0, guard_ = 0;
};

}  // namespace mpsx::driver::host::simt
