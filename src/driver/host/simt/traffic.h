// Counts the cost of a SIMD group's accesses: 32-byte device-memory transactions, and passes over the 32 banks of
// threadgroup memory. NVIDIA calls these sectors and wavefronts, and calls an access a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsx::driver::host::simt {

inline constexpr unsigned kSectorBytes = 32, kBanks = 32, kBankBytes = 4;

// The counters of one instruction in one address space.
struct AccessCounts {
  uint64_t requests = 0;          // executions by a SIMD group
  uint64_t lanes = 0;             // active lanes
  uint64_t bytes = 0;             // requested by the active lanes
  uint64_t transactions = 0;      // sectors or bank passes
  uint64_t min_transactions = 0;  // the fewest that can move the distinct bytes of each request
  uint64_t repeated = 0;          // sectors that the same threadgroup had already moved in this direction
};

// Totals for one direction (reads or writes) of device-memory traffic, over all instructions.
struct DirectionCounts {
  uint64_t distinct = 0;  // bytes, each counted once
  uint64_t moved = 0;     // sectors, counted once per move
  uint64_t shared = 0;    // the most moves of each sector by any one threadgroup, summed over sectors
};

// The device-memory traffic of a launch.
class DeviceMemory {
 public:
  void clear() { regions_.clear(), last_ = 0; }
  void add(uintptr_t begin, size_t size);
  bool holds(uintptr_t at) { return find(at) != nullptr; }
  // Records an access by a SIMD group of threadgroup `group` to `lanes` addresses, `bytes` each.
  void access(const uintptr_t* addresses, unsigned lanes, unsigned bytes, bool stores, uint32_t group, AccessCounts&);
  DirectionCounts counts(bool stores) const;

 private:
  struct Sector {
    uint32_t group = 0;  // last threadgroup that moved the sector, plus one
    uint16_t times = 0, most = 0;
  };
  struct Direction {
    std::vector<Sector> sectors;
    std::vector<uint64_t> touched;  // one bit per byte
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

// Counts the passes over the banks of threadgroup memory. In each pass, every bank provides one word, so a pass serves
// 32 lanes of up to 4 bytes, 16 lanes of 8 bytes, or 8 lanes of 16 bytes.
void count_banks(const uintptr_t* addresses, unsigned lanes, unsigned bytes, AccessCounts& counts);

}  // namespace mpsx::driver::host::simt
