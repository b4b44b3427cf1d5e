// The address ranges of the loaded kernel libraries. Signal handlers use them to recognize kernel code.
#pragma once

#include <cstdint>

namespace mpsx::driver::host {

// Registers the library that contains `symbol`. It must be unregistered before it is closed.
void register_kernel_code(const void* symbol);
void unregister_kernel_code(const void* symbol);

// Returns whether an address is in a registered library. This is safe to call in a signal handler. On unsupported
// platforms, the result is always false.
bool is_kernel_code(uintptr_t address);

}  // namespace mpsx::driver::host
