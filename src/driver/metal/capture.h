// Captures GPU work for Xcode's debugger.
#pragma once

#include "driver/metal/device.h"

namespace mpsx::driver::metal {

// Throws Error if capture is not available or is already running.
void start_capture(id<MTLDevice> device, const std::string& path);
void stop_capture();

}  // namespace mpsx::driver::metal
