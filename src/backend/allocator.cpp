#include "backend/allocator.h"

#include <cstring>

#include "backend/device.h"
#include "backend/storage.h"
#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/stream.h"

namespace mpsx::backend {
namespace {

using c10::CachingAllocator::Stat;
using c10::CachingDeviceAllocator::DeviceStats;

constexpr auto kAggregate = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

Stat stat(uint64_t current, uint64_t peak, uint64_t allocated, uint64_t freed) {
  Stat s;
  s.current = static_cast<int64_t>(current);
  s.peak = static_cast<int64_t>(peak);
  s.allocated = static_cast<int64_t>(allocated);
  s.freed = static_cast<int64_t>(freed);
  return s;
}

struct Allocator final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return allocate_data(bytes); }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    if (bytes == 0) return;
    runtime::copy(to, from, bytes);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override { runtime::empty_cache(); }

  // The allocator reuses freed blocks without waiting for other streams, so wait for this stream now.
  void recordStream(const c10::DataPtr&, c10::Stream stream) override { runtime::synchronize(stream.id()); }

  DeviceStats getDeviceStats(c10::DeviceIndex) override {
    const auto m = runtime::memory_statistics();
    DeviceStats s;
    s.allocation[kAggregate] = stat(m.active_blocks, m.active_blocks_peak, m.allocations, m.frees);
    s.active[kAggregate] = s.allocation[kAggregate];
    s.segment[kAggregate] = stat(m.segments, m.segments_peak, m.segments, 0);
    s.allocated_bytes[kAggregate] = stat(m.allocated, m.allocated_peak, m.allocated_total, m.freed_total);
    s.active_bytes[kAggregate] = s.allocated_bytes[kAggregate];
    s.requested_bytes[kAggregate] = s.allocated_bytes[kAggregate];
    s.reserved_bytes[kAggregate] = stat(m.reserved, m.reserved_peak, m.reserved, 0);
    s.num_alloc_retries = static_cast<int64_t>(m.retries);
    s.num_ooms = static_cast<int64_t>(m.out_of_memory);
    s.num_device_alloc = static_cast<int64_t>(m.segments);
    return s;
  }

  void resetAccumulatedStats(c10::DeviceIndex) override { runtime::reset_accumulated_statistics(); }
  void resetPeakStats(c10::DeviceIndex) override { runtime::reset_peak_statistics(); }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex) override {
    auto& driver = runtime::driver();
    return {driver.free_memory(), driver.info().total_memory};
  }
};

}  // namespace

c10::DeviceAllocator* device_allocator() {
  static auto* allocator = new Allocator();
  return allocator;
}

void register_allocator() { c10::SetAllocator(kDeviceType, device_allocator()); }

}  // namespace mpsx::backend
