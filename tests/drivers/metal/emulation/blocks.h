// Copies and releases clang blocks. These must not capture Objective-C objects.
#pragma once

namespace emulation {
void* copy_block(const void* block);
void release_block(void* block);
}  // namespace emulation
