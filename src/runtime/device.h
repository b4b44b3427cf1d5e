// The driver in use, chosen once per process from MPSX_DRIVER or the hardware.
#pragma once

#include <functional>
#include <string>

#include "driver/driver.h"

namespace mpsx::runtime {

// The backend calls this first. `find_libraries` locates or builds the folder of kernel libraries when the driver
// starts; `parallel_for` is the thread pool to use.
void configure(std::function<std::string()> find_libraries, driver::ParallelFor parallel_for);

// Starts the driver on the first call. Throws if it cannot start (unknown MPSX_DRIVER, no kernel library for this CPU).
driver::Driver& driver();
bool driver_started();
// Whether the driver runs kernels on the calling thread, inside dispatch; false until it starts.
bool kernels_run_on_caller();
// The same, predicted from MPSX_DRIVER and the platform before the driver starts.
bool expects_cpu_driver();
void check_not_forked();  // throws in a forked child of a process that has used the device

}  // namespace mpsx::runtime
