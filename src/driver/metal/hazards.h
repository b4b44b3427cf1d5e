// Finds the dispatches of a concurrent encoder that must wait for earlier ones.
#pragma once

#include <array>

#include "driver/driver.h"

namespace mpsx::driver::metal {

// The memory that dispatches have accessed since the last barrier. Two dispatches conflict if they access the same
// range of a buffer and at least one of them writes it. Different ranges of a buffer are disjoint (driver.h), so one
// lookup in a hash table per argument finds a conflict.
class Hazards {
 public:
  // Adds a dispatch. Returns true if it needs a barrier before it, because it conflicts with an earlier one or because
  // the table is full. After a barrier, the earlier dispatches no longer matter.
  bool add(const Argument* arguments, size_t count, const Dispatch&);
  void clear();

 private:
  static constexpr unsigned kLogSlots = 10;
  static constexpr size_t kSlots = size_t(1) << kLogSlots, kMaxRanges = kSlots / 2;
  struct Range {
    const void* buffer;
    size_t begin;
    uint64_t use;  // twice the number of the first dispatch that accesses the range, plus 1 if one writes it
  };
  static size_t slot_of(const Argument& a) {
    return (reinterpret_cast<uintptr_t>(a.data) + a.begin) * 0x9e3779b97f4a7c15 >> (64 - kLogSlots);
  }
  bool record(const Argument* arguments, size_t count);

  std::array<Range, kSlots> slots_{};  // a slot is free if its dispatch precedes the last barrier
  uint64_t number_ = 0;                // of the last dispatch
  uint64_t start_ = 1;                 // the number of the first dispatch after the last barrier
  size_t ranges_ = 0;                  // in use
  bool everything_ = false;            // whether a dispatch since the last barrier may access more than these ranges
};

}  // namespace mpsx::driver::metal
