// Launch shapes of kernels in which groups of lanes share rows (metal/lib/row.h).
#pragma once

#include "runtime/kernel_library.h"

namespace mpsx::runtime {

// A lane group is the threads that process one row together.
struct LaneGroups {
  uint32_t lanes;  // threads per row: RowShape::team
  uint32_t threadgroup_size;
  uint32_t threadgroups;
  uint32_t rows_per_threadgroup;
  uint64_t elements_held;  // elements of a row that a lane group keeps in registers
};

// Several threadgroups of this size fit on a GPU core, so that one reads while another computes.
constexpr uint32_t kLaneGroupThreads = 256;

// Lane groups for `rows` rows of `size` elements. `pack` elements are 16 bytes, and each thread holds `held` elements.
// A lane group has at most `max_lanes` threads, which process a longer row in several parts, unless there are too few
// rows to keep a GPU busy.
LaneGroups lane_groups_for(const KernelEntry& kernel, uint64_t rows, uint64_t size, uint64_t pack, uint64_t held,
                           uint32_t max_lanes = kLaneGroupThreads);

// The longest row that one threadgroup sorts if its memory has room for `held` elements. Unlimited on drivers whose
// threadgroups are single threads, which do not need the memory.
uint64_t max_sortable_row(uint64_t held);

}  // namespace mpsx::runtime
