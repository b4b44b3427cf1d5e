#include "driver/host/simt/profile.h"

#include <algorithm>

#include "driver/host/simt/allocations.h"

namespace mpsx::driver::host::simt {
namespace {

// Calls `body` with the index of each lane in the mask.
template <typename F>
void each_lane(uint32_t mask, F&& body) {
  for (; mask; mask &= mask - 1) body(unsigned(__builtin_ctz(mask)));
}

}  // namespace

Profile::Profile(const mpsx_profile_table_t& table, LaunchCounts& counts) : table_(table), counts_(counts) {
  executed_.resize(table.block_count);
  counts_.sites.resize(table.site_count);
  counts_.blocks.resize(table.block_count);
}

void Profile::begin_group(Worker& worker) {
  if (!worker_) {
    worker_ = &worker;
    find_memory();
  }
  const unsigned *at = worker.group().position, *grid = worker.job().launch.groups;
  group_ = at[0] + grid[0] * (at[1] + grid[1] * at[2]);
  counts_.simdgroups += worker.group().simdgroups;
}

void Profile::end_group(Worker& worker) {
  join(~0u);
  counts_.threadgroup_bytes = std::max<uint64_t>(counts_.threadgroup_bytes, worker.arena().bytes());
}

void Profile::find_memory() {
  const Job& job = worker_->job();
  for (size_t i = 0; i < job.argument_count; ++i) {
    const Argument& a = job.arguments[i];
    if (a.kind != Argument::Kind::buffer || !a.data) continue;
    const Extent extent = allocations().find(static_cast<const char*>(a.data) + a.size);
    if (extent.begin) counts_.memory.add(reinterpret_cast<uintptr_t>(extent.begin), extent.size);
  }
}

void Profile::threadgroup_barrier(Worker& worker, const Site& site) {
  join(~0u);
  count_call(site, worker.group().threads);
}

void Profile::simdgroup_barrier(Worker&, unsigned simdgroup, const Site& site) {
  if (simdgroup == simdgroup_) join(~0u);
  count_call(site, MPSX_SIMD_WIDTH);
}

void Profile::lanes_converged(Worker&, unsigned simdgroup, unsigned mask, const Site& site) {
  if (simdgroup == simdgroup_) join(mask);
  count_call(site, unsigned(__builtin_popcount(mask)));
}

void Profile::count_call(const Site& site, unsigned lanes) {
  LaunchCounts::Call& call = counts_.calls[{site.function, site.file ? site.file : "", site.line}];
  ++call.times;
  call.lanes += lanes;
}

// Returns the index of the running lane. If a different SIMD group has started to run, first merges the logs.
unsigned Profile::enter() {
  const unsigned thread = worker_->thread_index(), simdgroup = thread / MPSX_SIMD_WIDTH;
  if (simdgroup != simdgroup_) {
    join(~0u);
    simdgroup_ = simdgroup;
  }
  return thread % MPSX_SIMD_WIDTH;
}

void Profile::access(const void* p, unsigned site) {
  if (worker_->on_own_stack(p)) return;
  LaneLog& log = logs_[enter()];
  log.sites.push_back(site);
  log.addresses.push_back(reinterpret_cast<uintptr_t>(p));
  if (log.sites.size() > kMaxLogged / MPSX_SIMD_WIDTH)
    worker_->fault("profile: too many accesses between two barriers; profile a smaller launch", nullptr, 0);
}

void Profile::range(const void* p, unsigned long bytes, unsigned site) {
  const unsigned step = std::max(table_.sites[site].bytes, 1u);
  for (unsigned long i = 0; i < bytes; i += step) access(static_cast<const char*>(p) + i, site);
}

void Profile::block(unsigned block) {
  auto& executed = executed_[block];
  const unsigned lane = enter();
  if (!std::any_of(executed.begin(), executed.end(), [](uint32_t n) { return n != 0; })) blocks_.push_back(block);
  ++executed[lane];
}

// Merges the logs of the lanes in the mask.
void Profile::join(uint32_t mask) {
  if (!blocks_.empty()) join_blocks(mask);
  join_accesses(mask);
}

void Profile::join_blocks(uint32_t mask) {
  const auto joined = [&](uint32_t block) {
    uint32_t steps = 0;
    bool rest = false;
    for (unsigned lane = 0; lane < MPSX_SIMD_WIDTH; ++lane) {
      uint32_t& n = executed_[block][lane];
      if (mask >> lane & 1u) {
        steps = std::max(steps, n);
        counts_.blocks[block].lanes += n;
        n = 0;
      }
      rest |= n != 0;
    }
    counts_.blocks[block].steps += steps;
    return !rest;
  };
  blocks_.erase(std::remove_if(blocks_.begin(), blocks_.end(), joined), blocks_.end());
}

void Profile::join_accesses(uint32_t mask) {
  std::array<unsigned, MPSX_SIMD_WIDTH> lanes;
  unsigned count_of_lanes = 0;
  each_lane(mask, [&](unsigned lane) {
    if (!logs_[lane].sites.empty()) lanes[count_of_lanes++] = lane;
  });
  if (!count_of_lanes) return;
  const std::vector<uint32_t>& sites = logs_[lanes[0]].sites;
  const bool converged = std::all_of(lanes.begin() + 1, lanes.begin() + count_of_lanes,
                                     [&](unsigned lane) { return logs_[lane].sites == sites; });
  if (converged) {
    std::array<uintptr_t, MPSX_SIMD_WIDTH> addresses;
    for (size_t i = 0; i < sites.size(); ++i) {
      for (unsigned k = 0; k < count_of_lanes; ++k) addresses[k] = logs_[lanes[k]].addresses[i];
      count(sites[i], addresses.data(), count_of_lanes);
    }
  } else {
    join_diverged(mask);
  }
  each_lane(mask, [&](unsigned lane) { logs_[lane].sites.clear(), logs_[lane].addresses.clear(); });
}

// Merges the logs of lanes that have diverged. Matches the n-th executions of each instruction.
void Profile::join_diverged(uint32_t mask) {
  std::vector<Access> all;
  std::vector<uint32_t> occurrences(table_.site_count);
  each_lane(mask, [&](unsigned lane) {
    std::fill(occurrences.begin(), occurrences.end(), 0u);
    const LaneLog& log = logs_[lane];
    for (size_t i = 0; i < log.sites.size(); ++i)
      all.push_back({log.sites[i], occurrences[log.sites[i]]++, log.addresses[i]});
  });
  std::stable_sort(all.begin(), all.end(), [](const Access& a, const Access& b) {
    return a.site != b.site ? a.site < b.site : a.occurrence < b.occurrence;
  });
  std::array<uintptr_t, MPSX_SIMD_WIDTH> addresses;
  for (size_t i = 0; i < all.size();) {
    const Access& first = all[i];
    unsigned lanes = 0;
    for (; i < all.size() && all[i].site == first.site && all[i].occurrence == first.occurrence; ++i)
      addresses[lanes++] = all[i].address;
    count(first.site, addresses.data(), lanes);
  }
}

void Profile::count(unsigned site, const uintptr_t* addresses, unsigned lanes) {
  const mpsx_profile_site& facts = table_.sites[site];
  auto& counts = counts_.sites[site];
  const auto arena = reinterpret_cast<uintptr_t>(worker_->arena().begin());
  if (addresses[0] - arena < Arena::kCapacity)
    return count_banks(addresses, lanes, facts.bytes, counts[size_t(Space::threadgroup)]);
  DeviceMemory& memory = counts_.memory;
  if (!memory.holds(addresses[0])) {  // memory reached through a pointer in an argument, or outside all buffers
    const Extent extent = allocations().find(reinterpret_cast<const void*>(addresses[0]));
    const auto begin = reinterpret_cast<uintptr_t>(extent.begin);
    if (!extent.begin || addresses[0] - begin >= extent.size) {
      AccessCounts& constant = counts[size_t(Space::constant)];
      ++constant.requests, constant.lanes += lanes, constant.bytes += uint64_t(lanes) * facts.bytes;
      return;
    }
    memory.add(begin, extent.size);
  }
  memory.access(addresses, lanes, facts.bytes, facts.kind != MPSX_PROFILE_LOAD, group_, counts[size_t(Space::device)]);
}

const mpsx_profile_calls kProfileCalls = {
    [](const void* p, unsigned site) { Profile::here()->access(p, site); },
    [](const void* p, unsigned long bytes, unsigned site) { Profile::here()->range(p, bytes, site); },
    [](unsigned block) { Profile::here()->block(block); }};

}  // namespace mpsx::driver::host::simt
