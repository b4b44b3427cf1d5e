// Counts what the accesses of a SIMD group cost: 32-byte device-memory transactions, and passes over the 32 banks of
// threadgroup memory. In NVIDIA's terms, these are sectors and wavefronts, and an access is a request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsx::driver::host::simt {

inline constexpr unsigned kSectorBytes = 32, kBanks = 32, kBankBytes = 4;

// The counters of one instruction in one address space.
struct AccessCounts {
  uint64_t requests = 0;          // executions by a SIMD group
  uint64_t lanes = 0;             // active lanes, summed over the requests
  uint64_t bytes = 0;             // bytes that the active lanes request
  uint64_t transactions = 0;      // sectors, or passes over the banks
  uint64_t min_transactions = 0;  // minimum number that can move each request's distinct bytes
  uint64_t repeated = 0;          // sectors that the threadgroup had already moved in this direction
};

// Totals of the device-memory traffic in one direction (reads or writes), over all instructions.
struct DirectionCounts {
  uint64_t distinct = 0;  // bytes, each counted only once
  uint64_t moved = 0;     // sectors, counted every time they are moved
  uint64_t shared = 0;    // for each sector, the most times that one threadgroup moved it; summed over sectors
};

// The device-memory traffic of a launch.
class DeviceMemory {
 public:
  void clear() { regions_.clear(), last_ = 0; }
  void add(uintptr_t begin, size_t size);
  bool holds(uintptr_t at) { return find(at) != nullptr; }
  // Records an access by a SIMD group of threadgroup `group` to `lanes` addresses, with `bytes` bytes at each.
  void access(const uintptr_t* addresses, unsigned lanes, unsigned bytes, bool stores, uint32_t group, AccessCounts&);
  DirectionCounts counts(bool stores) const;

 private:
  struct Sector {
    uint32_t group = 0;  // one more than the last threadgroup that moved the sector
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

// Counts the passes over the banks of threadgroup memory. In each pass, every bank provides one word. So one pass
// serves 32 lanes with up to 4 bytes each, 16 lanes with 8 bytes, or 8 lanes with 16 bytes.
void count_banks(const uintptr_t* addresses, unsigned lanes, unsigned bytes, AccessCounts& counts);

}  // namespace mpsx::driver::host::simt
