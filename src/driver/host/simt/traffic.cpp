#include "driver/host/simt/traffic.h"

#include <algorithm>
#include <array>

namespace mpsx::driver::host::simt {
namespace {

constexpr unsigned kMaxLanes = 32;
using Units = std::array<uintptr_t, kMaxLanes * 4>;

// Collects the distinct units of `unit` bytes that the accesses touch, in sorted order. Returns the number of units.
unsigned units_of(const uintptr_t* addresses, unsigned lanes, unsigned bytes, unsigned unit, Units& units) {
  unsigned count = 0;
  for (unsigned i = 0; i < lanes; ++i)
    for (uintptr_t u = addresses[i] / unit; u <= (addresses[i] + bytes - 1) / unit && count < units.size(); ++u)
      if (count == 0 || units[count - 1] != u) units[count++] = u;
  if (!std::is_sorted(units.begin(), units.begin() + count)) std::sort(units.begin(), units.begin() + count);
  return unsigned(std::unique(units.begin(), units.begin() + count) - units.begin());
}

// Returns how many bytes are requested by at least one lane.
uint64_t distinct_bytes(const uintptr_t* addresses, unsigned lanes, unsigned bytes) {
  std::array<uintptr_t, kMaxLanes> sorted;
  std::copy(addresses, addresses + lanes, sorted.begin());
  std::sort(sorted.begin(), sorted.begin() + lanes);
  uint64_t sum = 0;
  for (unsigned i = 0; i < lanes; ++i)
    sum += i + 1 < lanes ? std::min<uintptr_t>(bytes, sorted[i + 1] - sorted[i]) : bytes;
  return sum;
}

void touch(std::vector<uint64_t>& bits, size_t at, unsigned bytes) {
  for (; bytes; --bytes, ++at) bits[at / 64] |= uint64_t(1) << at % 64;
}

}  // namespace

void DeviceMemory::add(uintptr_t begin, size_t size) {
  for (const Region& r : regions_)
    if (r.begin == begin && r.size >= size) return;
  regions_.push_back({begin, size, {}});
  for (Direction& d : regions_.back().directions) {
    d.sectors.resize(size / kSectorBytes + 1);
    d.touched.resize(size / 64 + 1);
  }
}

DeviceMemory::Region* DeviceMemory::find(uintptr_t at) {
  if (last_ < regions_.size() && at - regions_[last_].begin < regions_[last_].size) return &regions_[last_];
  for (size_t i = 0; i < regions_.size(); ++i)
    if (at - regions_[i].begin < regions_[i].size) return last_ = i, &regions_[i];
  return nullptr;
}

void DeviceMemory::access(const uintptr_t* addresses, unsigned lanes, unsigned bytes, bool stores, uint32_t group,
                          AccessCounts& counts) {
  std::array<uintptr_t, kMaxLanes> offsets{};  // relative to the region, because GPU allocations are aligned to sectors
  Region* const region = find(addresses[0]);
  unsigned count = 0;
  for (unsigned i = 0; i < lanes; ++i)
    if (addresses[i] - region->begin + bytes <= region->size) offsets[count++] = addresses[i] - region->begin;
  Units sectors;
  const unsigned moved = units_of(offsets.data(), count, bytes, kSectorBytes, sectors);
  Direction& direction = region->directions[stores];
  for (unsigned i = 0; i < moved; ++i) {
    Sector& s = direction.sectors[sectors[i]];
    if (s.group != group + 1) s.group = group + 1, s.times = 0;
    counts.repeated += s.times != 0;
    if (s.times != UINT16_MAX) ++s.times;
    s.most = std::max(s.most, s.times);
  }
  for (unsigned i = 0; i < count; ++i) touch(direction.touched, offsets[i], bytes);
  direction.moved += moved;
  counts.requests += 1;
  counts.lanes += count;
  counts.bytes += uint64_t(count) * bytes;
  counts.transactions += moved;
  counts.min_transactions += (distinct_bytes(offsets.data(), count, bytes) + kSectorBytes - 1) / kSectorBytes;
  if (count < lanes) {  // the remaining lanes access other buffers
    std::array<uintptr_t, kMaxLanes> rest;
    unsigned left = 0;
    for (unsigned i = 0; i < lanes; ++i)
      if (addresses[i] - region->begin + bytes > region->size && find(addresses[i])) rest[left++] = addresses[i];
    if (left && left < lanes) access(rest.data(), left, bytes, stores, group, counts), --counts.requests;
  }
}

DirectionCounts DeviceMemory::counts(bool stores) const {
  DirectionCounts sum;
  for (const Region& r : regions_) {
    const Direction& d = r.directions[stores];
    sum.moved += d.moved;
    for (const Sector& s : d.sectors) sum.shared += s.most;
    for (const uint64_t word : d.touched) sum.distinct += uint64_t(__builtin_popcountll(word));
  }
  return sum;
}

void count_banks(const uintptr_t* addresses, unsigned lanes, unsigned bytes, AccessCounts& counts) {
  const unsigned together = kMaxLanes * kBankBytes / std::max(bytes, kBankBytes);
  for (unsigned first = 0; first < lanes; first += together) {
    Units words;
    const unsigned n = units_of(addresses + first, std::min(together, lanes - first), bytes, kBankBytes, words);
    std::array<uint8_t, kBanks> of_bank{};
    uint8_t passes = 0;
    for (unsigned i = 0; i < n; ++i) passes = std::max(passes, ++of_bank[words[i] % kBanks]);
    counts.transactions += passes;
  }
  Units words;
  const unsigned all = units_of(addresses, lanes, bytes, kBankBytes, words);
  counts.requests += 1;
  counts.lanes += lanes;
  counts.bytes += uint64_t(lanes) * bytes;
  counts.min_transactions += (all + kBanks - 1) / kBanks;
}

}  // namespace mpsx::driver::host::simt
