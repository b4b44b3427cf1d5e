// Shadow memory of an allocation that a dispatch may write. Records which threads accessed each element last.
//
// Two accesses by different threads race if at least one is a write and at least one is not atomic. Within a
// threadgroup, a threadgroup barrier with mem_flags::mem_device orders them, and within a SIMD group, a simdgroup
// barrier does. Accesses by different threadgroups are ordered only by atomic_thread_fence and atomics. The shadow does
// not follow atomics: after a fence, it assumes that the threadgroup waited for all earlier threadgroups.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

// The barriers and fences that the running threadgroup has passed.
class DeviceOrder {
 public:
  void begin_group(uint32_t group);
  // `fences` is true if the barrier orders accesses to device memory (mem_flags::mem_device).
  void threadgroup_barrier(bool fences);
  void simdgroup_barrier(unsigned simdgroup, bool fences);
  void device_fence() { after_fence_ = true; }

 private:
  friend class DeviceShadow;
  uint32_t tick();

  uint64_t mark_ = 0;  // the mark of an access at this time, without its thread
  uint32_t last_fence_ = 0, last_barrier_ = 0;
  std::array<uint32_t, 32> simd_last_fence_{}, simd_last_barrier_{};  // per SIMD group
  bool after_fence_ = false;
};

class DeviceShadow {
 public:
  // An earlier access that races with the current one.
  struct Finding {
    bool found = false;
    bool wrote = false;        // whether the earlier access is a write
    bool other_group = false;  // whether the earlier access is by another threadgroup
    bool unfenced = false;     // a barrier separates the accesses but lacks mem_device
    size_t offset = 0;         // first affected byte
    uint32_t group = 0;
    unsigned thread = 0;
    uint32_t code = 0;  // code address
    explicit operator bool() const { return found; }
  };

  DeviceShadow(const char* begin, size_t bytes);
  uintptr_t address(size_t offset) const { return begin_ + offset; }
  bool holds(uintptr_t at) const { return at - begin_ < bytes_; }
  // Stops checking accesses.
  void allow_races() { cells_.reset(); }
  // Records an access to [at, at + bytes), even if it is faulty.
  Finding access(const DeviceOrder&, uintptr_t at, size_t bytes, bool stores, bool atomic, unsigned thread,
                 uint32_t code);

 private:
  // A mark encodes an access: its threadgroup, its time, whether it is atomic, its Sharers, and its thread. 0 means no
  // access. The time counts the barriers of the threadgroup. Sharers says whether the mark applies to one thread, to
  // several threads of one SIMD group or of one threadgroup, or to several threadgroups.
  enum Sharers : uint64_t { kOne, kSimdgroup, kGroup, kGroups };
  static constexpr unsigned kSharersShift = 10, kAtomicShift = 12, kTimeShift = 13, kGroupShift = 32;
  static constexpr size_t kMaxCells = size_t(1) << 24;
  static constexpr uint32_t kMaxTime = (1u << (kGroupShift - kTimeShift)) - 1;
  static constexpr uint64_t kThread = (1u << kSharersShift) - 1, kAtomic = uint64_t(1) << kAtomicShift;
  static constexpr uint64_t kSharers = uint64_t(3) << kSharersShift;
  static constexpr uint64_t kOwner = ~uint64_t(0) << kGroupShift | kSharers | kThread;
  struct Mark {
    uint64_t access;
    uint32_t code;
  };
  struct Cell {
    Mark writer, reader;
  };
  struct Free {
    void operator()(Cell* cells) const { std::free(cells); }
  };
  using Cells = std::unique_ptr<Cell[], Free>;
  friend class DeviceOrder;

  static uint32_t group(uint64_t mark) { return uint32_t(mark >> kGroupShift) - 1; }
  static uint32_t time(uint64_t mark) { return uint32_t(mark) >> kTimeShift; }
  static unsigned thread(uint64_t mark) { return unsigned(mark & kThread); }
  static unsigned simdgroup(uint64_t mark) { return thread(mark) / MPSX_SIMD_WIDTH; }
  static Sharers sharers(uint64_t mark) { return Sharers(mark >> kSharersShift & 3); }
  // Returns whether only the thread that makes the access `now` has accessed the element.
  static bool is_own(uint64_t mark, uint64_t now) { return mark == 0 || ((mark ^ now) & kOwner) == 0; }
  static bool fenced(const DeviceOrder&, uint64_t mark, uint64_t now);
  static bool races(const DeviceOrder& o, uint64_t mark, uint64_t now) {
    return !is_own(mark, now) && !(mark & now & kAtomic) && !fenced(o, mark, now);
  }
  static Cells make(size_t count) noexcept;
  Finding access_shared(const DeviceOrder&, size_t cell, Mark now, bool stores);
  void record(const DeviceOrder&, size_t cell, Mark Cell::* kind, Mark now);
  Finding found(const DeviceOrder&, size_t cell, Mark Cell::* kind, uint64_t now) const;
  size_t cells() const { return (bytes_ >> shift_) + 1; }
  void split(unsigned shift);

  const uintptr_t begin_;
  const size_t bytes_;
  unsigned shift_ = 2;  // log2 of the bytes per cell: 4 bytes until a kernel accesses smaller elements
  Cells cells_;         // null if accesses are not checked
  Cells others_;        // for marks of several accesses, one by a different thread than the mark's. May be null
};

inline DeviceShadow::Finding DeviceShadow::access(const DeviceOrder& o, uintptr_t at, size_t bytes, bool stores,
                                                  bool atomic, unsigned thread, uint32_t code) {
  const size_t offset = at - begin_;
  if ((offset | bytes) & ((1u << shift_) - 1)) [[unlikely]]
    split((offset | bytes) & 1 ? 0 : 1);
  const Mark now{o.mark_ | (atomic ? kAtomic : 0) | thread, code};
  Finding finding;
  if (!cells_) return finding;
  for (size_t i = offset >> shift_, end = i + (bytes >> shift_); i < end; ++i) {
    Cell& c = cells_[i];
    if (!atomic && is_own(c.writer.access, now.access) && is_own(c.reader.access, now.access)) [[likely]]
      (stores ? c.writer : c.reader) = now;
    else if (const Finding f = access_shared(o, i, now, stores); f && !finding)
      finding = f;
  }
  return finding;
}

}  // namespace mpsx::driver::host::simt
