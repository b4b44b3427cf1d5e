// Finds the dispatches of a concurrent encoder that must wait for earlier ones.
#pragma once

#include <array>
#include <vector>

#include "driver/driver.h"

namespace mpsx::driver::metal {

// The memory that dispatches have accessed since the last barrier. Two dispatches conflict if they access the same byte
// of a buffer and at least one of them writes it.
class Hazards {
 public:
  // Adds a dispatch. Returns true if it conflicts with an earlier one and needs a barrier before it. After a barrier,
  // the earlier dispatches no longer matter.
  bool add(const Argument* arguments, size_t count, const Dispatch&);
  void clear();

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Range {
    const void* buffer;
    size_t begin, end;
    bool written;
    uint32_t next;  // the next range of a buffer with the same hash, or kNone
  };
  static size_t hash(const void* buffer) {
    const auto address = reinterpret_cast<uintptr_t>(buffer);
    return (address >> 4 ^ address >> 12) % kBuckets;
  }
  bool conflicts(const Argument&) const;
  void record(const Argument&);

  static constexpr size_t kBuckets = 256;
  std::array<uint32_t, kBuckets> first_ = empty();
  std::vector<Range> ranges_;
  bool empty_ = true;
  bool everything_ = false;  // whether an earlier dispatch may access any memory

  static constexpr std::array<uint32_t, kBuckets> empty() {
    std::array<uint32_t, kBuckets> buckets{};
    buckets.fill(kNone);
    return buckets;
  }
};

}  // namespace mpsx::driver::metal
