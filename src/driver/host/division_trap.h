// Integer division by zero, and of the least integer by -1: x86 traps, and GPUs give something.
#pragma once

#include <cstdint>

namespace mpsx::driver::host {

// From now on such a division gives something in the library that `symbol` is in.
void tolerate_division_by_zero(const void* symbol);
// Before that library is closed.
void forget_division_by_zero(const void* symbol);

// For the handler of SIGFPE: moves the thread past the division that trapped; false: it was none in such a library.
bool skip_division(void* context);
// Whether an address lies in such a library.
bool is_kernel_code(uintptr_t at);

}  // namespace mpsx::driver::host
