// The GPU that the driver uses, and what it can do.
#pragma once

#import <Metal/Metal.h>

#include "driver/metal/objc.h"

namespace mpsx::driver::metal {

// The Mac's GPU; none where there is no Metal. Throws Error where there is one that cannot run our kernels, or where
// macOS is too old for the language they are written in.
Owned<id<MTLDevice>> find_device();

Info describe_device(id<MTLDevice> device);
Traits describe_traits();

// Throws Error in a process that was forked after the driver had started: Metal's connection to the GPU does not
// survive that. Every entry that reaches Metal calls it first.
bool is_forked();
void check_not_forked();
void note_start();

}  // namespace mpsx::driver::metal
