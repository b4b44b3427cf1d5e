// The stacks of one CPU thread's fibers.
#pragma once

#include <cstddef>
#include <cstdint>

// Saves the caller's registers on its stack, and its stack pointer in `*save`. mpsx_simt_switch then resumes the fiber
// whose stack pointer is `load`. mpsx_simt_start instead calls `entry` on the empty stack `top`. `entry` must not
// return.
extern "C" void mpsx_simt_switch(void** save, void* load) noexcept asm("mpsx_simt_switch");
extern "C" void mpsx_simt_start(void** save, void* top, void (*entry)()) noexcept asm("mpsx_simt_start");

namespace mpsx::driver::host::simt {

// Stacks of equal size in one mapping, each with a guard page at its low end. Because all fibers use about the same
// stack depth, the tops of the stacks are offset to map to different cache sets. A stack is aligned to its size and
// stores its owner in its last word, which is faster to read than a thread-local variable.
class Stacks {
 public:
  static constexpr size_t kBytes = size_t(128) << 10;  // including the guard page
  Stacks() = default;
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();
  void reserve(size_t count, void* owner);  // discards stacks that are in use; throws Error on failure
  // Returns the owner of the caller's stack, which must be one of these stacks.
  static void* owner() noexcept {
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    return *reinterpret_cast<void**>((here | (kBytes - 1)) + 1 - sizeof(void*));
  }
  void* top(size_t i) const noexcept;  // the initial stack pointer of fiber `i`
  void* spare() const noexcept { return top(count_ - 1); }
  // Returns whether `p` is on the stack of fiber `i`.
  bool holds(size_t i, const void* p) const noexcept {
    const char* base = memory_ + i * kBytes;
    return p >= base + guard_ && p < base + kBytes;
  }
  // Returns the index of the fiber whose guard page contains `p`, or -1 if there is none.
  long overflowed(const void* p) const noexcept;

 private:
  void unmap() noexcept;
  void* mapping_ = nullptr;
  char* memory_ = nullptr;  // start of the first stack in the mapping
  size_t count_ = 0, guard_ = 0;
};

}  // namespace mpsx::driver::host::simt
