// Launches of kernels that share rows out among teams of threads (metal/lib/row.h).
#pragma once

#include <initializer_list>

#include "lib/row_params.h"
#include "ops/op.h"
#include "runtime/teams.h"

namespace mpsx::ops {

struct RowLaunch {
  RowShape shape{};
  runtime::Teams teams;
  uint64_t pack;  // elements of 16 bytes
  // Every row begins with a pack and ends with one.
  bool whole_packs() const { return shape.packed && shape.offset == 0 && shape.size % pack == 0; }
  // `work`: about how many elements a row is worth.
  void run(Launch& launch, uint64_t work) const {
    launch.groups({teams.groups}, teams.per_group).work(work * teams.rows).run();
  }
};

// `rows` rows of `size` elements, of `inputs` read at once and of other tensors of the same shape. A thread holds
// `held` values of each, as a rule kHeldBytes of all inputs together. A kernel that reads rows once asks for at most
// runtime::kTeamThreads threads a row.
inline RowLaunch share_rows(const runtime::KernelEntry& kernel, uint64_t rows, uint64_t size,
                            std::initializer_list<Tensor> inputs, std::initializer_list<Tensor> others,
                            uint64_t held = 0, uint32_t most = kRowThreads) {
  const auto place = [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.const_data_ptr()) / t.element_size(); };
  const Tensor& first = *inputs.begin();
  RowLaunch r;
  const uint64_t pack = r.pack = 16 / first.element_size();
  if (held == 0) held = kHeldBytes / first.element_size() / inputs.size();
  r.teams = runtime::teams_for(kernel, rows, size, pack, held, most);
  r.shape = {uint32_t(rows), uint32_t(size), r.teams.team, uint32_t(place(first) % pack), 1};
  for (const auto& tensors : {inputs, others})
    for (const Tensor& t : tensors)  // packs of as many elements, which need no more than 16 bytes' alignment
      if ((place(t) - place(first)) % std::min<uint64_t>(pack, 16 / t.element_size()) != 0) r.shape.packed = 0;
  return r;
}

// Whether rows of these tensors begin at multiples of 16 bytes.
inline bool lines_packed(uint64_t size, std::initializer_list<Tensor> tensors) {
  for (const Tensor& t : tensors)
    if (!aligned(t) || !runtime::in_packs(size * t.element_size())) return false;
  return true;
}

}  // namespace mpsx::ops
