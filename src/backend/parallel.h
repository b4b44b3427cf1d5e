// Runs the host driver's work on PyTorch's own CPU threads.
#pragma once

#include <cstdint>
#include <functional>

namespace mpsx::backend {

// Splits [0, total) into parts of at least `grain` and calls body(begin, end) for each part, on up to
// at::get_num_threads() threads. Waits for all parts, and rethrows an exception if any of them throws.
void parallel_for(uint64_t total, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body);

}  // namespace mpsx::backend
