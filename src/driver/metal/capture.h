// A record of what the GPU does, for Xcode's debugger.
#pragma once

#include "driver/metal/device.h"

namespace mpsx::driver::metal {

// Throws Error if macOS offers no capture, or one is running.
void start_capture(id<MTLDevice> device, const std::string& path);
void stop_capture();

}  // namespace mpsx::driver::metal
