// Errors that kernels report through TORCH_REPORT_ERROR (c10/metal/error.h). As in device_error.h, the CPU throws an
// error once the work is complete: immediately on a synchronous driver, or at the next synchronization on an
// asynchronous one.
#pragma once

#include <c10/util/Exception.h>

#include "runtime/kernel_library.h"

namespace mpsx::runtime {

class ShaderError : public c10::AcceleratorError {
  using c10::AcceleratorError::AcceleratorError;
};

// Returns the ErrorMessages buffer for the next launch of a kernel.
void* shader_error_buffer(const KernelEntry& kernel);

// Call this after the launch. Throws the errors in the buffer on a synchronous driver.
void check_shader_errors(const KernelEntry& kernel, void* buffer);

// Throws the first error that a complete launch reported. device_error.cpp calls this during a LaunchPause.
void check_shader_errors_during_pause();

// Reuses the buffer of a kernel that will not run again.
void release_shader_error_buffer(const KernelEntry& kernel);

}  // namespace mpsx::runtime
