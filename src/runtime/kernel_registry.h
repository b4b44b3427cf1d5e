// All kernels looked up so far. profile.cpp enumerates them; shader.cpp adds kernels compiled at run time.
#pragma once

#include <functional>

#include "runtime/kernel_library.h"

namespace mpsx::runtime {
void for_each_kernel(const std::function<void(KernelEntry&)>& visit);
KernelEntry& add_kernel(const driver::Kernel& kernel, const std::string& name);
// Detaches the entry from its kernel, which is about to be destroyed. The counts stay, and the next kernel of that name
// continues them.
void retire_kernel(KernelEntry& entry);
}  // namespace mpsx::runtime
