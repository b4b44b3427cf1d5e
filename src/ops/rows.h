// Launches kernels that distribute rows over groups of lanes (metal/lib/row.h).
#pragma once

#include <initializer_list>

#include "lib/row_params.h"
#include "ops/op.h"
#include "runtime/lane_groups.h"

namespace mpsx::ops {

struct RowLaunch {
  RowShape shape{};
  runtime::LaneGroups lane_groups;
  uint64_t vec_size;  // number of elements in 16 bytes
  // Returns whether every row starts and ends on a vector boundary.
  bool whole_vectors() const { return shape.vectorized && shape.offset == 0 && shape.size % vec_size == 0; }
  // `work` is the cost of processing a row, in elements.
  void run(Launch& launch, uint64_t work) const {
    launch.groups({lane_groups.threadgroups}, lane_groups.threadgroup_size)
        .work(work * lane_groups.rows_per_threadgroup)
        .run();
  }
};

// Plans the launch of a kernel over `rows` rows of `size` elements. The kernel reads all `inputs` at the same time, and
// also `others`, which have the same shape. Each thread keeps `per_thread_elements` elements of each input in
// registers. By default, this is as many as fit in kRegisterBytes for all inputs together. For a kernel that reads each
// row only once, pass runtime::lane_group_threads() as `max_lanes`.
inline RowLaunch share_rows(const runtime::KernelEntry& kernel, uint64_t rows, uint64_t size,
                            std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> others,
                            uint64_t per_thread_elements = 0, uint32_t max_lanes = kRowThreads) {
  const auto element_index = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.const_data_ptr()) / t.element_size();
  };
  const Tensor& first = *inputs.begin();
  RowLaunch r;
  const uint64_t vec_size = r.vec_size = 16 / first.element_size();
  if (per_thread_elements == 0) per_thread_elements = kRegisterBytes / first.element_size() / inputs.size();
  r.lane_groups = runtime::lane_groups_for(kernel, rows, size, vec_size, per_thread_elements, max_lanes);
  r.shape = {uint32_t(rows), uint32_t(size), r.lane_groups.lanes, uint32_t(element_index(first) % vec_size), 1};
  for (const auto& tensors : {inputs, others})
    for (const Tensor& t : tensors)  // vectors of vec_size elements need at most 16-byte alignment
      if ((element_index(t) - element_index(first)) % std::min<uint64_t>(vec_size, 16 / t.element_size()) != 0)
        r.shape.vectorized = 0;
  return r;
}

// Returns whether the rows of the tensors are 16-byte aligned.
inline bool rows_aligned(uint64_t size, std::initializer_list<Tensor> tensors) {
  for (const Tensor& t : tensors)
    if (!aligned(t) || !runtime::is_vector_aligned(size * t.element_size())) return false;
  return true;
}

}  // namespace mpsx::ops
