// Launch configurations for kernels in which each group of lanes processes one row (metal/lib/row.h).
#pragma once

#include "runtime/kernel_library.h"

namespace mpsx::runtime {

// A lane group is a set of threads that process one row together.
struct LaneGroups {
  uint32_t lanes;  // threads per row (RowShape::team)
  uint32_t threadgroup_size;
  uint32_t threadgroups;
  uint32_t rows_per_threadgroup;
  uint64_t register_elements;  // number of elements of its row that a lane group keeps in registers
};

// Returns how many threads share a long row that they read once: few enough for several threadgroups to share a GPU
// core, so that one loads while another computes.
uint32_t lane_group_threads();

// Computes the lane groups for `rows` rows of `size` elements. A 16-byte vector has `vec_size` elements, and each
// thread keeps `per_thread_elements` elements in registers. A lane group has at most `max_lanes` threads, but may have
// more if there are too few rows to occupy a GPU. It loops over a row that does not fit in its registers.
LaneGroups lane_groups_for(const KernelEntry& kernel, uint64_t rows, uint64_t size, uint64_t vec_size,
                           uint64_t per_thread_elements, uint32_t max_lanes = lane_group_threads());

// Returns the length of the longest row that one threadgroup can sort, if its threadgroup memory holds
// `per_thread_elements` elements. There is no limit on drivers with single-thread threadgroups, which sort without
// threadgroup memory.
uint64_t max_sortable_row(uint64_t per_thread_elements);

}  // namespace mpsx::runtime
