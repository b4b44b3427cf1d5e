// Work of the host driver on torch's own CPU threads.
#pragma once

#include <cstdint>
#include <functional>

namespace mpsx::backend {

// Calls body(begin, end) for parts of [0, total) that are at least `grain` long where there are several, on as many
// threads as at::get_num_threads() says, and returns when all are done. An exception of one part is thrown here.
void parallel_for(uint64_t total, uint64_t grain, const std::function<void(uint64_t, uint64_t)>& body);

}  // namespace mpsx::backend
