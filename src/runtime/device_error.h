// Errors that kernels detect, such as an out-of-range index. A kernel writes the error to a record in device memory
// (metal/lib/error.h), and the CPU throws it once the work is complete: immediately on a synchronous driver, or at the
// next synchronization on an asynchronous one.
#pragma once

#include <cstdint>

namespace mpsx::runtime {

// Returns the record for a kernel to report errors to. Pass it as `pointer(device_error_record(op))` and call
// check_device_errors() after run(). `op` names the operator in the error message and must be a string literal.
void* device_error_record(const char* op);

// Throws the error, if any, in the record that the calling thread last requested. The exception has the type that the
// CPU operator throws. Does nothing on an asynchronous driver, where runtime::synchronize() checks instead.
void check_device_errors();
void check_device_errors_after_synchronize();

// Waits for the last launch and throws its error, on any driver. For operators whose next kernels require valid
// indices.
void wait_for_device_errors();

}  // namespace mpsx::runtime
