// Dispatches kernels for launches and for their replays (launch_recording.h).
#pragma once

#include "runtime/kernel_library.h"

namespace mpsx::runtime {

// Dispatches a kernel on the current stream, and counts, times, traces and logs it. On an asynchronous driver, the
// caller must hold launch_mutex(). Returns the sequence number.
uint64_t dispatch(KernelEntry&, const driver::Argument* arguments, size_t count, const driver::Dispatch&);

// Records that work up to `seq` uses a block. Threads may launch work on the same block concurrently, so the largest
// sequence number wins.
void record_use(std::atomic<uint64_t>& last_use_seq, uint64_t seq);

}  // namespace mpsx::runtime
