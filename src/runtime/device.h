// The active driver, selected once per process by MPSX_DRIVER or the available hardware.
#pragma once

#include <functional>
#include <string>

#include "driver/driver.h"

namespace mpsx::runtime {

// Configures the runtime. Call this first. `find_libraries` locates or builds the folder of kernel libraries when the
// driver starts. `parallel_for` is the thread pool to use.
void configure(std::function<std::string()> find_libraries, driver::ParallelFor parallel_for);

// Returns the driver and starts it on the first call. Throws if it cannot start, for example because MPSX_DRIVER is
// unknown or no kernel library supports this CPU.
driver::Driver& driver();
bool driver_started();
// Returns whether the driver runs kernels on the calling thread, inside dispatch. Returns false until the driver
// starts.
bool kernels_run_on_caller();
// Predicts kernels_run_on_caller() from MPSX_DRIVER and the platform, before the driver starts.
bool expects_cpu_driver();
void check_not_forked();  // throws in a forked child of a process that has used the device

}  // namespace mpsx::runtime
