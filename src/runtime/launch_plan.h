// Plans launches without running them: finds out which kernels an operator would launch, with which grids. Tuning
// (python/mpsx/cli/tune) plans each candidate, and measures equal plans only once. torch.compile
// (python/mpsx/inductor/preloading.py) plans a graph's operators, because a plan loads their kernels.
#pragma once

#include <c10/util/Exception.h>

#include <string>
#include <vector>

namespace mpsx::runtime {

// The plan of the calling thread, or null. While there is one, Launch::run() appends the kernel's name and its grid,
// and launches nothing. Tensors created in a plan have no memory, so use them only in this plan.
inline thread_local constinit std::vector<std::string>* active_plan = nullptr;

// Allocates a block of a plan. The OS provides no memory until the CPU accesses it, which it has no reason to.
struct Block;
Block* reserve_addresses(size_t bytes);

// Call this before the CPU uses the memory of tensors, because a plan does not compute their elements.
inline void reject_plan(const char* what, const char* name = "") {
  TORCH_CHECK(!active_plan, "mpsx: a plan of launches cannot include ", what, name);
}

}  // namespace mpsx::runtime
