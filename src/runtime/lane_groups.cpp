#include "runtime/lane_groups.h"

#include <algorithm>
#include <bit>

#include "runtime/device.h"
#include "runtime/tuning.h"

namespace mpsx::runtime {
namespace {

constexpr uint64_t kSimdGroup = 32, kMaxLanes = 1024;

// With a SIMD width of 1, a row of at most this many elements stays in the L1 cache.
constexpr uint64_t kCachedRow = 4096;

}  // namespace

LaneGroups lane_groups_for(const KernelEntry& kernel, uint64_t rows, uint64_t size, uint64_t vec_size,
                           uint64_t per_thread_elements, uint32_t max_lanes) {
  const uint64_t vectors = std::max<uint64_t>(1, (size + vec_size - 1) / vec_size);
  const Tuning& tuned = tuning();
  const bool few = double(rows) < tuned.rows_few;
  const uint64_t per_thread = few ? vec_size : per_thread_elements, threads = (size + per_thread - 1) / per_thread;
  LaneGroups g{};
  if (threads <= kSimdGroup) {  // to amortize the cost per row, use the fewest lanes whose loads still coalesce
    const auto coalescing = uint64_t(tuned.rows_min_lanes);
    g.lanes = uint32_t(std::bit_ceil(std::max(threads, std::min(coalescing, (vectors + 3) / 4))));
    g.threadgroup_size = uint32_t(uint64_t(tuned.rows_shared_threads) / kSimdGroup * kSimdGroup);
  } else {
    g.lanes = g.threadgroup_size =
        uint32_t(std::min<uint64_t>(few ? kMaxLanes : max_lanes, (threads + kSimdGroup - 1) / kSimdGroup * kSimdGroup));
  }
  const uint32_t forced = driver().traits().threadgroup_size;
  g.threadgroup_size = std::clamp<uint32_t>(forced ? forced : g.threadgroup_size, 1, kernel.kernel->max_threads);
  // Keep this condition in sync with row_group() in metal/lib/threadgroup.h.
  const bool spans_threadgroup = g.lanes > kernel.kernel->simd_width || g.lanes > g.threadgroup_size;
  g.rows_per_threadgroup = spans_threadgroup ? 1 : g.threadgroup_size / g.lanes;
  g.threadgroups = uint32_t((rows + g.rows_per_threadgroup - 1) / g.rows_per_threadgroup);
  g.register_elements =
      kernel.kernel->simd_width == 1 ? kCachedRow : per_thread_elements * std::min(g.lanes, g.threadgroup_size);
  return g;
}

uint32_t lane_group_threads() { return uint32_t(uint64_t(tuning().rows_long_threads) / kSimdGroup * kSimdGroup); }

uint64_t max_sortable_row(uint64_t per_thread_elements) {
  return driver().traits().one_thread_groups ? UINT64_MAX : per_thread_elements;
}

}  // namespace mpsx::runtime
