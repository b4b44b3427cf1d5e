// Errors that kernels detect, such as an out-of-range index. A kernel writes the error to a record in device memory;
// the CPU throws it once the work is complete: immediately on a synchronous driver, else at the next synchronization.
// metal/lib/error.h is the kernel's side.
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// The record that a kernel reports to: pass `pointer(device_error_record(op))`, then call check_device_errors()
// after run(). `op` must be a string literal; it names the operator in the message.
void* device_error_record(const char* op);

// Throws the oldest recorded error, with the exception type that the CPU operator uses. Cheap when there is none.
// Does nothing on an asynchronous driver, where runtime::synchronize() checks instead.
void check_device_errors();
void check_device_errors_after_synchronize();

// Waits for the last launch and checks it on every driver, for kernels whose successors rely on valid indices.
void wait_for_device_errors();

}  // namespace mpsx::runtime
