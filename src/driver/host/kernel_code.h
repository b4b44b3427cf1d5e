// The address ranges of loaded kernel libraries. Signal handlers use them to recognize kernel code.
#pragma once

#include <cstdint>

namespace mpsx::driver::host {

// Registers the library that contains `symbol`. Unregister it before closing the library.
void register_kernel_code(const void* symbol);
void unregister_kernel_code(const void* symbol);

// Returns whether an address is in a registered library. Safe to call in a signal handler. Always returns false on
// unsupported platforms.
bool is_kernel_code(uintptr_t address);

}  // namespace mpsx::driver::host
