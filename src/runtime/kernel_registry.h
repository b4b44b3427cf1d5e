// Every kernel looked up so far: for profile.cpp, and for shader.cpp, which adds kernels that no library has.
#pragma once

#include <functional>

#include "runtime/kernel_library.h"

namespace mpsx::runtime {
void for_each_kernel(const std::function<void(KernelEntry&)>& visit);
KernelEntry& add_kernel(const driver::Kernel& kernel, const std::string& name);
// Its kernel goes; what was counted stays, and the next kernel of that name is added to it.
void retire_kernel(KernelEntry& entry);
}
