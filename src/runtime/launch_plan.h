// Plans launches without running them: which kernels would an operator launch, with which grids? Tuning asks this for
// every candidate (python/mpsx/cli/tune), so that it measures each variant only once.
#pragma once

#include <string>
#include <vector>

namespace mpsx::runtime {

// The plan of the calling thread, or null. While there is one, Launch::run() appends the kernel's name and its grid,
// and launches nothing. The contents of results are then undefined.
inline thread_local constinit std::vector<std::string>* active_plan = nullptr;

}  // namespace mpsx::runtime
