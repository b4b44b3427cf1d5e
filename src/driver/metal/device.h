// Selects the GPU and returns its properties.
#pragma once

#import <Metal/Metal.h>

#include "driver/metal/objc.h"

namespace mpsx::driver::metal {

// Returns the Mac's GPU, or null if Metal is not available. Throws Error if the GPU cannot run our kernels, or if macOS
// does not support their version of Metal.
Owned<id<MTLDevice>> find_device();

Info describe_device(id<MTLDevice> device);
Traits describe_traits(id<MTLDevice>);

// SDKs before macOS 26 do not declare this.
inline constexpr auto kFamilyMetal4 = MTLGPUFamily(5002);  // MTLGPUFamilyMetal4

// Returns whether this process was forked after the driver started. Metal's connection to the GPU does not survive a
// fork.
bool is_forked();
void check_not_forked();  // throws Error in a forked process; call this before any call to Metal
void install_fork_handler();

}  // namespace mpsx::driver::metal
