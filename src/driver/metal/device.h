// The GPU that the driver uses, and its properties.
#pragma once

#import <Metal/Metal.h>

#include "driver/metal/objc.h"

namespace mpsx::driver::metal {

// Returns the Mac's GPU, or null if there is no Metal. Throws Error if the GPU cannot run our kernels, or if macOS does
// not support the version of Metal that they are written in.
Owned<id<MTLDevice>> find_device();

Info describe_device(id<MTLDevice> device);
Traits describe_traits();

// Whether the process was forked after the driver had started. Metal's connection to the GPU does not survive a fork.
bool is_forked();
void check_not_forked();  // throws Error in such a process; every call into Metal checks first
void install_fork_handler();

}  // namespace mpsx::driver::metal
