// Shadow memory of a threadgroup. For each byte, records whether it has been written and which threads accessed it
// last.
//
// Two accesses by different threads race if at least one of them is a write and no barrier separates them. The barrier
// must be a threadgroup barrier or, for threads of the same SIMD group, a simdgroup barrier. Atomic accesses do not
// race with each other.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

class Shadow {
 public:
  enum class Fault : uint8_t { none, uninitialized, read_after_write, write_after_write, write_after_read };
  struct Finding {
    Fault fault = Fault::none;
    size_t offset = 0;      // first affected byte
    unsigned thread = 0;    // the other thread
    uint32_t code = 0;      // code address of that thread's access
    bool unfenced = false;  // a barrier separates the accesses but lacks mem_threadgroup
    explicit operator bool() const { return fault != Fault::none; }
  };

  explicit Shadow(size_t bytes) : cells_(bytes), codes_((bytes + 3) / 4) {}

  void begin_group();
  // `fences` says whether the barrier orders accesses to threadgroup memory (mem_flags::mem_threadgroup).
  void threadgroup_barrier(bool fences);
  void simdgroup_barrier(unsigned simdgroup, bool fences);

  // Each function records the access, even if it is a fault. If a later access conflicts with this one, the report uses
  // `code` as the code address of this one. try_read and try_write are fast paths for common cases. In other cases,
  // they change nothing and return false.
  bool try_read(size_t offset, size_t bytes, unsigned thread, uint32_t code);
  bool try_write(size_t offset, size_t bytes, unsigned thread, uint32_t code);
  Finding read(size_t offset, size_t bytes, unsigned thread, uint32_t code);
  Finding write(size_t offset, size_t bytes, unsigned thread, uint32_t code);
  Finding atomic(size_t offset, size_t bytes, unsigned thread, uint32_t code, bool loads, bool stores);

 private:
  // A mark encodes an access: its time, its thread, and a Sharers value. 0 means no access. Sharers says whether the
  // mark applies to one thread, to several threads of one SIMD group, or to threads of several SIMD groups. For atomic
  // writes, kAtomic is added to it.
  enum Sharers : uint32_t { kOne, kSimdgroup, kSeveral };
  static constexpr uint32_t kThreadBits = 10, kSharersBits = 2, kTimeShift = kThreadBits + kSharersBits;
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
  static uint32_t sharers(uint32_t mark) { return mark >> kThreadBits & 3; }
  uint32_t mark(unsigned thread, uint32_t sharers) const {
    return now_ << kTimeShift | sharers << kThreadBits | thread;
  }
  bool current(uint32_t mark) const { return time(mark) >= group_start_; }

  bool ordered(uint32_t mark, unsigned thread, Sharers sharers) const;
  bool reader_ordered(uint32_t mark, unsigned thread) const { return ordered(mark, thread, Sharers(sharers(mark))); }
  bool writer_ordered(uint32_t mark, unsigned thread) const;
  uint32_t merged_sharers(uint32_t mark, unsigned thread, Sharers sharers) const;
  // Returns whether four consecutive bytes have identical marks.
  static bool same_history(const Cell* c) {
    return ((c[0].writer ^ c[1].writer) | (c[0].writer ^ c[2].writer) | (c[0].writer ^ c[3].writer) |
            (c[0].reader ^ c[1].reader) | (c[0].reader ^ c[2].reader) | (c[0].reader ^ c[3].reader)) == 0;
  }
  bool partly_uninitialized(size_t offset, size_t bytes, size_t* first) const;
  Finding found(Fault, size_t offset, uint32_t mark, bool by_writer) const;
  void tick();
  void renumber();

  std::vector<Cell> cells_;
  std::vector<Code> codes_;    // one for each four bytes
  uint32_t now_ = 0;           // time, which counts barriers and threadgroups
  uint32_t group_start_ = 1;   // older accesses are from a previous threadgroup
  uint32_t last_fence_ = 1;    // older accesses come before everything from now on
  uint32_t last_barrier_ = 1;  // time of the last threadgroup barrier of any kind
  std::array<uint32_t, 32> simd_last_fence_{}, simd_last_barrier_{};  // per SIMD group
};

// Returns whether the access recorded in `mark` is ordered before the next access by `thread`.
inline bool Shadow::ordered(uint32_t mark, unsigned thread_, Sharers sharers_) const {
  if (time(mark) < last_fence_) return true;
  if (sharers_ == kOne && thread(mark) == thread_) return true;
  const unsigned simd = thread_ / MPSX_SIMD_WIDTH;
  return sharers_ != kSeveral && thread(mark) / MPSX_SIMD_WIDTH == simd && time(mark) < simd_last_fence_[simd];
}

inline bool Shadow::writer_ordered(uint32_t mark, unsigned thread_) const {
  return ordered(mark, thread_, sharers(mark) == kPlain ? kOne : Sharers(sharers(mark) - kAtomic));
}

// Returns the Sharers value after adding `thread` to the threads that share `mark`.
inline uint32_t Shadow::merged_sharers(uint32_t mark, unsigned thread_, Sharers sharers_) const {
  return sharers_ == kSeveral || thread(mark) / MPSX_SIMD_WIDTH != thread_ / MPSX_SIMD_WIDTH ? kSeveral : kSimdgroup;
}

inline bool Shadow::try_read(size_t offset, size_t bytes, unsigned thread_, uint32_t code) {
  Cell* const c = &cells_[offset];
  if (bytes != 4 || offset % 4 != 0 || !same_history(c) || !current(c->writer) || !writer_ordered(c->writer, thread_))
    return false;
  const uint32_t was = c->reader;
  const bool alone = !current(was) || reader_ordered(was, thread_);
  const uint32_t now = mark(thread_, alone ? uint32_t(kOne) : merged_sharers(was, thread_, Sharers(sharers(was))));
  codes_[offset / 4].reader = code;
  if (now != was) c[0].reader = c[1].reader = c[2].reader = c[3].reader = now;
  return true;
}

inline bool Shadow::try_write(size_t offset, size_t bytes, unsigned thread_, uint32_t code) {
  Cell* const c = &cells_[offset];
  if (bytes != 4 || offset % 4 != 0 || !same_history(c)) return false;
  if (current(c->writer) && !writer_ordered(c->writer, thread_)) return false;
  if (current(c->reader) && !reader_ordered(c->reader, thread_)) return false;
  codes_[offset / 4].writer = code;
  c[0].writer = c[1].writer = c[2].writer = c[3].writer = mark(thread_, kPlain);
  return true;
}

}  // namespace mpsx::driver::host::simt
