// The state of each byte of a threadgroup's memory: whether it was written, and who touched it last.
//
// Two accesses of different threads, one of them a write, race unless a threadgroup barrier lies between them, or a
// SIMD-group barrier if both threads are of that SIMD group. Atomic accesses do not race with each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

class Shadow {
 public:
  enum class Fault : uint8_t { none, uninitialised, read_after_write, write_after_write, write_after_read };
  struct Finding {
    Fault fault = Fault::none;
    size_t offset = 0;      // of the first byte that it is about
    unsigned thread = 0;    // the other one
    uint32_t code = 0;      // where that was
    bool unfenced = false;  // there was a barrier in between, but not one for threadgroup memory
    explicit operator bool() const { return fault != Fault::none; }
  };

  explicit Shadow(size_t bytes) : cells_(bytes), codes_((bytes + 3) / 4) {}

  void begin_group();
  // `fences`: whether it orders accesses to threadgroup memory (mem_flags::mem_threadgroup).
  void threadgroup_barrier(bool fences);
  void simdgroup_barrier(unsigned simdgroup, bool fences);

  // An access is recorded even if it is found wrong. `code`: where it is, for findings about later accesses.
  // The quick forms do the same for most accesses that are fine, and for others nothing: false.
  bool quick_read(size_t offset, size_t bytes, unsigned thread, uint32_t code);
  bool quick_write(size_t offset, size_t bytes, unsigned thread, uint32_t code);
  Finding read(size_t offset, size_t bytes, unsigned thread, uint32_t code);
  Finding write(size_t offset, size_t bytes, unsigned thread, uint32_t code);
  Finding atomic(size_t offset, size_t bytes, unsigned thread, uint32_t code, bool loads, bool stores);

 private:
  // Who touched a byte: a time, a thread, and how many threads it stands for. 0: nobody.
  enum Who : uint32_t { kOne, kSimdgroup, kSeveral };  // of readers, and (plus kAtomic) of atomic writers
  static constexpr uint32_t kThreadBits = 10, kWhoBits = 2, kTimeShift = kThreadBits + kWhoBits;
  static constexpr uint32_t kThreadMask = (1u << kThreadBits) - 1, kTimes = 1u << (32 - kTimeShift);
  static constexpr uint32_t kPlain = 0, kAtomic = 1;
  struct Cell {
    uint32_t writer, reader;
  };
  struct Code {
    uint32_t writer, reader;
  };

  static uint32_t time(uint32_t mark) { return mark >> kTimeShift; }
  static unsigned thread(uint32_t mark) { return mark & kThreadMask; }
  static uint32_t who(uint32_t mark) { return mark >> kThreadBits & 3; }
  uint32_t mark(unsigned thread, uint32_t who) const { return now_ << kTimeShift | who << kThreadBits | thread; }
  bool current(uint32_t mark) const { return time(mark) >= group_start_; }

  bool ordered(uint32_t mark, unsigned thread, Who who) const;
  bool reader_ordered(uint32_t mark, unsigned thread) const { return ordered(mark, thread, Who(who(mark))); }
  bool writer_ordered(uint32_t mark, unsigned thread) const;
  uint32_t joined(uint32_t mark, unsigned thread, Who who) const;
  // Whether four bytes share one history.
  static bool alike(const Cell* c) {
    return ((c[0].writer ^ c[1].writer) | (c[0].writer ^ c[2].writer) | (c[0].writer ^ c[3].writer) |
            (c[0].reader ^ c[1].reader) | (c[0].reader ^ c[2].reader) | (c[0].reader ^ c[3].reader)) == 0;
  }
  bool partly_uninitialised(size_t offset, size_t bytes, size_t* first) const;
  Finding found(Fault, size_t offset, uint32_t mark, bool by_writer) const;
  void tick();
  void renumber();

  std::vector<Cell> cells_;
  std::vector<Code> codes_;                              // of every fourth byte
  uint32_t now_ = 0;                                     // counts barriers, and threadgroups
  uint32_t group_start_ = 1;                             // what is older was another threadgroup's
  uint32_t fenced_ = 1;                                  // what is older is ordered before everything now
  uint32_t met_ = 1;                                     // the last threadgroup barrier of any kind
  std::array<uint32_t, 32> simd_fenced_{}, simd_met_{};  // the same for the threads of one SIMD group
};

// Whether what `mark` stands for comes before whatever `thread` does now.
inline bool Shadow::ordered(uint32_t mark, unsigned thread_, Who who_) const {
  if (time(mark) < fenced_) return true;
  if (who_ == kOne && thread(mark) == thread_) return true;
  const unsigned simd = thread_ / MPSX_SIMD_WIDTH;
  return who_ != kSeveral && thread(mark) / MPSX_SIMD_WIDTH == simd && time(mark) < simd_fenced_[simd];
}

inline bool Shadow::writer_ordered(uint32_t mark, unsigned thread_) const {
  return ordered(mark, thread_, who(mark) == kPlain ? kOne : Who(who(mark) - kAtomic));
}

// Whom `mark` and `thread` are together.
inline uint32_t Shadow::joined(uint32_t mark, unsigned thread_, Who who_) const {
  return who_ == kSeveral || thread(mark) / MPSX_SIMD_WIDTH != thread_ / MPSX_SIMD_WIDTH ? kSeveral : kSimdgroup;
}

inline bool Shadow::quick_read(size_t offset, size_t bytes, unsigned thread_, uint32_t code) {
  Cell* const c = &cells_[offset];
  if (bytes != 4 || offset % 4 != 0 || !alike(c) || !current(c->writer) || !writer_ordered(c->writer, thread_))
    return false;
  const uint32_t was = c->reader;
  const bool alone = !current(was) || reader_ordered(was, thread_);
  const uint32_t now = mark(thread_, alone ? uint32_t(kOne) : joined(was, thread_, Who(who(was))));
  codes_[offset / 4].reader = code;
  if (now != was) c[0].reader = c[1].reader = c[2].reader = c[3].reader = now;
  return true;
}

inline bool Shadow::quick_write(size_t offset, size_t bytes, unsigned thread_, uint32_t code) {
  Cell* const c = &cells_[offset];
  if (bytes != 4 || offset % 4 != 0 || !alike(c)) return false;
  if (current(c->writer) && !writer_ordered(c->writer, thread_)) return false;
  if (current(c->reader) && !reader_ordered(c->reader, thread_)) return false;
  codes_[offset / 4].writer = code;
  c[0].writer = c[1].writer = c[2].writer = c[3].writer = mark(thread_, kPlain);
  return true;
}

}  // namespace mpsx::driver::host::simt
