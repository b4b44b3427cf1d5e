#pragma once

#include <string>

namespace mpsx::runtime {
// Returns whether the kernel library contains a kernel. KernelSet::has() also loads it, and on a GPU this means to
// compile it, which takes up to a second. To choose between kernels, use this function.
bool library_contains(const std::string& name);
}  // namespace mpsx::runtime
