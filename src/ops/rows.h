// Launches kernels that distribute rows over groups of lanes (metal/lib/row.h).
#pragma once

#include <initializer_list>

#include "lib/row_params.h"
#include "ops/op.h"
#include "runtime/lane_groups.h"

namespace mpsx::ops {

struct RowLaunch {
  RowShape shape{};
  runtime::LaneGroups teams;
  uint64_t pack;  // elements per 16 bytes
  // Returns whether every row starts and ends at a vector boundary.
  bool whole_vectors() const { return shape.vectorized && shape.offset == 0 && shape.size % pack == 0; }
  // `work` is the cost of a row, in elements.
  void run(Launch& launch, uint64_t work) const {
    launch.groups({teams.threadgroups}, teams.threadgroup_size).work(work * teams.rows_per_threadgroup).run();
  }
};

// Plans the launch of a kernel over `rows` rows of `size` elements. The kernel reads all `inputs` at once, along with
// `others` of the same shape. Each thread holds `held` values of each input, by default kHeldBytes for all inputs
// together. A kernel that reads each row only once uses at most runtime::kLaneGroupThreads threads per row.
inline RowLaunch share_rows(const runtime::KernelEntry& kernel, uint64_t rows, uint64_t size,
                            std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> others,
                            uint64_t held = 0, uint32_t most = kRowThreads) {
  const auto element_index = [](const Tensor& t) {
    return reinterpret_cast<uintptr_t>(t.const_data_ptr()) / t.element_size();
  };
  const Tensor& first = *inputs.begin();
  RowLaunch r;
  const uint64_t pack = r.pack = 16 / first.element_size();
  if (held == 0) held = kHeldBytes / first.element_size() / inputs.size();
  r.teams = runtime::lane_groups_for(kernel, rows, size, pack, held, most);
  r.shape = {uint32_t(rows), uint32_t(size), r.teams.lanes, uint32_t(element_index(first) % pack), 1};
  for (const auto& tensors : {inputs, others})
    for (const Tensor& t : tensors)  // vectors of this many elements need at most 16-byte alignment
      if ((element_index(t) - element_index(first)) % std::min<uint64_t>(pack, 16 / t.element_size()) != 0)
        r.shape.vectorized = 0;
  return r;
}

// Returns whether the rows of these tensors are 16-byte aligned.
inline bool rows_aligned(uint64_t size, std::initializer_list<Tensor> tensors) {
  for (const Tensor& t : tensors)
    if (!aligned(t) || !runtime::is_vector_aligned(size * t.element_size())) return false;
  return true;
}

}  // namespace mpsx::ops
