// Errors that kernels detect, such as an out-of-range index. A kernel writes the error to a record in device memory
// (metal/lib/error.h). The CPU throws it when the work is complete: immediately on a synchronous driver, and at the
// next synchronization on an asynchronous driver.
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// Returns the record to which a kernel reports errors. Pass it as `pointer(device_error_record(op))`, and call
// check_device_errors() after run(). `op` names the operator in the error message and must be a string literal.
void* device_error_record(const char* op);

// If the record that the calling thread requested last contains an error, throws an exception of the same type as the
// CPU operator's. Does nothing on an asynchronous driver, where runtime::synchronize() checks the records instead.
void check_device_errors();
void check_device_errors_after_synchronize();

// Waits for the last launch and throws its error, even on an asynchronous driver. Use this in operators whose next
// kernels require valid indices.
void wait_for_device_errors();

}  // namespace mpsx::runtime
