// Runs the host driver's work on torch's own CPU threads.
#pragma once

#include <cstdint>
#include <functional>

namespace mpsx::backend {

// Calls body(begin, end) for parts of [0, total), each at least `grain` long if there are several, on up to
// at::get_num_threads() threads, and returns when all are done. Rethrows an exception of a part.
void parallel_for(uint64_t total, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body);

}  // namespace mpsx::backend
