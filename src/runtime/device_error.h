// Errors that a kernel finds (an index or a value out of range): it writes them to a record in device memory, and they
// are thrown when the work is known to be complete: at once on a synchronous driver, else at the next
// synchronisation. The kernel's side is metal/lib/error.h.
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// The memory a kernel reports to: pass `pointer(device_error_record(op))`, then call check_device_errors()
// after run(). `op` must be a string literal; it names the operator in the message.
void* device_error_record(const char* op);

// Throws the oldest error recorded (an index: c10::IndexError, or a plain c10::Error of the operators of which the CPU
// throws that). Cheap when there is none. On an asynchronous driver
// this does nothing: runtime::synchronize() does it.
void check_device_errors();
void check_device_errors_after_synchronize();

// Waits and checks the last launch on every driver, for kernels whose successors rely on valid indices.
void wait_for_device_errors();

}  // namespace mpsx::runtime
