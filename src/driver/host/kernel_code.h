// The address ranges of loaded kernel libraries. Signal handlers use them to recognize kernels.
#pragma once

#include <cstdint>

namespace mpsx::driver::host {

// Registers the library that contains `symbol`, or removes it before the library is closed.
void register_kernel_code(const void* symbol);
void unregister_kernel_code(const void* symbol);

// Whether an address is in a registered library. Safe to call in a signal handler. Always false if the platform does
// not support it.
bool is_kernel_code(uintptr_t address);

}  // namespace mpsx::driver::host
