// The runtime of clang's blocks, as far as blocks without Objective-C captures need it.
#pragma once

namespace emulation {
void* copy_block(const void* block);
void release_block(void* block);
}  // namespace emulation
