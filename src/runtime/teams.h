// How kernels that share rows out among teams of threads (metal/lib/row.h) are launched.
#pragma once

#include "runtime/kernel_library.h"

namespace mpsx::runtime {

struct Teams {
  uint32_t team;       // threads a row: RowShape::team
  uint32_t per_group;  // threads a threadgroup, and how many of those there are
  uint32_t groups;
  uint32_t rows;  // a threadgroup's
  uint64_t held;  // elements of a row that a team's threads hold
};

// Several threadgroups of so many threads fit on a GPU core, so that one reads while another computes.
constexpr uint32_t kTeamThreads = 256;

// Teams for `rows` rows of `size` elements. `pack` of them are 16 bytes, and a thread holds `held`. A team has at most
// `most` threads, which hold a part of a longer row at a time, unless the rows are too few to keep a GPU busy.
Teams teams_for(const KernelEntry& kernel, uint64_t rows, uint64_t size, uint64_t pack, uint64_t held,
                uint32_t most = kTeamThreads);

// The longest row that one threadgroup sorts, whose memory has room for `held` elements. One that is a thread needs no
// such room.
uint64_t longest_row(uint64_t held);

}  // namespace mpsx::runtime
