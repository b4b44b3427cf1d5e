// Selects the GPU and reports its properties.
#pragma once

#import <Metal/Metal.h>

#include "driver/metal/objc.h"

namespace mpsx::driver::metal {

// Returns the Mac's GPU, or null if Metal is not available. Throws Error if the GPU cannot run our kernels or if macOS
// does not support their Metal version.
Owned<id<MTLDevice>> find_device();

Info describe_device(id<MTLDevice> device);
Traits describe_traits(id<MTLDevice>);

// Newer than the headers of SDKs before macOS 26.
inline constexpr auto kFamilyMetal4 = MTLGPUFamily(5002);  // MTLGPUFamilyMetal4

// Returns whether the process was forked after the driver started. Metal's GPU connection does not survive a fork.
bool is_forked();
void check_not_forked();  // throws Error in a forked process; call before any Metal call
void install_fork_handler();

}  // namespace mpsx::driver::metal
