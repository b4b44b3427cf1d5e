// The driver in use: chosen once per process, by MPSX_DRIVER or by what the machine has.
#pragma once

#include <functional>
#include <string>

#include "driver/driver.h"

namespace mpsx::runtime {

// Called by the backend before anything else: what finds, or builds, the folder of kernel libraries when the driver
// starts, and the thread pool to use.
void configure(std::function<std::string()> find_libraries, driver::ParallelFor parallel_for);

// Throws an error that says what is wrong (unknown MPSX_DRIVER, no kernel library for this CPU, …).
driver::Driver& driver();
bool driver_started();  // whether driver() has been called with success
// Whether the driver runs kernels on the CPU, inside dispatch; false until it starts.
bool kernels_run_on_caller();
// The same, predicted from MPSX_DRIVER and the platform before the driver starts.
bool expects_cpu_driver();
void restart_check();   // throws in a forked child of a process that has used the device

}  // namespace mpsx::runtime
