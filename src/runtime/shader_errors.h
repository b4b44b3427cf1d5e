// Errors that kernels report through TORCH_REPORT_ERROR (c10/metal/error.h). Like those in device_error.h, they are
// thrown when the work is complete: immediately on a synchronous driver, and at the next synchronization on an
// asynchronous driver.
#pragma once

#include <c10/util/Exception.h>

#include "runtime/kernel_library.h"

namespace mpsx::runtime {

class ShaderError : public c10::AcceleratorError {
  using c10::AcceleratorError::AcceleratorError;
};

// Returns the ErrorMessages buffer to pass to the kernel's next launch.
void* shader_error_buffer(const KernelEntry& kernel);

// Call this after the launch. On a synchronous driver, throws the errors in the buffer.
void check_shader_errors(const KernelEntry& kernel, void* buffer);

// Throws the first error that a completed launch has reported. device_error.cpp calls this during a LaunchPause.
void check_shader_errors_during_pause();

// Recycles the buffer of a kernel that will not run again.
void release_shader_error_buffer(const KernelEntry& kernel);

}  // namespace mpsx::runtime
