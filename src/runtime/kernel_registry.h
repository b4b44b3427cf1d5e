// All kernels that have been looked up. profile.cpp enumerates them, and shader.cpp adds kernels compiled at run time.
#pragma once

#include <functional>

#include "runtime/kernel_library.h"

namespace mpsx::runtime {
void for_each_kernel(const std::function<void(KernelEntry&)>& visit);
KernelEntry& add_kernel(const driver::Kernel& kernel, const std::string& name);
// Detaches an entry from its kernel before the kernel is destroyed. The entry keeps its counts and is reused for a
// later kernel of the same name.
void retire_kernel(KernelEntry& entry);
}  // namespace mpsx::runtime
