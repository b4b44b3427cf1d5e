// Counts what accesses of a SIMD group cost: transactions of 32 bytes with device memory, passes over the 32 banks of
// threadgroup memory. In NVIDIA's words these are sectors and wavefronts, and an access is a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsx::driver::host::simt {

inline constexpr unsigned kSectorBytes = 32, kBanks = 32, kBankBytes = 4;

// Of one instruction in one memory.
struct AccessCounts {
  uint64_t requests = 0;      // SIMD groups that executed it
  uint64_t lanes = 0;         // their active lanes
  uint64_t bytes = 0;         // that these asked for
  uint64_t transactions = 0;  // sectors, or passes over the banks
  uint64_t least = 0;         // as many as the distinct bytes of each request need
  uint64_t again = 0;         // sectors that the threadgroup had moved before, in the same direction
};

// Of all instructions, with device memory in one direction.
struct DirectionCounts {
  uint64_t distinct = 0;  // bytes, each counted once
  uint64_t moved = 0;     // sectors, as often as they were moved
  uint64_t shared = 0;    // the same, but of what several threadgroups moved only the one that did so most often
};

// The device memory of a launch.
class DeviceMemory {
 public:
  void clear() { regions_.clear(), last_ = 0; }
  void add(uintptr_t begin, size_t size);
  bool holds(uintptr_t at) { return find(at) != nullptr; }
  // One access of a SIMD group of threadgroup number `group`: `lanes` addresses, `bytes` each.
  void access(const uintptr_t* addresses, unsigned lanes, unsigned bytes, bool stores, uint32_t group, AccessCounts&);
  DirectionCounts counts(bool stores) const;

 private:
  struct Sector {
    uint32_t group = 0;  // that moved it last, plus one
    uint16_t times = 0, most = 0;
  };
  struct Direction {
    std::vector<Sector> sectors;
    std::vector<uint64_t> touched;  // a bit a byte
    uint64_t moved = 0;
  };
  struct Region {
    uintptr_t begin;
    size_t size;
    Direction directions[2];
  };
  Region* find(uintptr_t at);
  std::vector<Region> regions_;
  size_t last_ = 0;
};

// The same for threadgroup memory: passes, in each of which every bank gives one word. A pass serves 32 lanes of up to
// 4 bytes, 16 of 8 bytes, 8 of 16.
void count_banks(const uintptr_t* addresses, unsigned lanes, unsigned bytes, AccessCounts& counts);

}  // namespace mpsx::driver::host::simt
