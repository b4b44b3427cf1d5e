// The active driver. MPSX_DRIVER or the available hardware determines it once per process.
#pragma once

#include <functional>
#include <string>

#include "driver/driver.h"

namespace mpsx::runtime {

// Configures the runtime. Call this before anything else. `find_libraries` locates or builds the folder of kernel
// libraries when the driver starts. `parallel_for` runs work on a thread pool.
void configure(std::function<std::string()> find_libraries, driver::ParallelFor parallel_for);

// Returns the driver. Starts it on the first call. Throws if it cannot start, for example if MPSX_DRIVER is unknown or
// no kernel library supports this CPU.
driver::Driver& driver();
bool driver_started();
// Returns whether the driver runs kernels on the calling thread during dispatch. Returns false if the driver has not
// started.
bool kernels_run_on_caller();
// Predicts from MPSX_DRIVER and the platform, before the driver starts, what kernels_run_on_caller() will return.
bool expects_cpu_driver();
void check_not_forked();  // throws in a forked child of a process that had used the device

}  // namespace mpsx::runtime
