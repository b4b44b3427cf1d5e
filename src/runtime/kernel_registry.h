// Every kernel looked up so far: for profile.cpp alone.
#pragma once

#include <functional>

#include "runtime/kernel_library.h"

namespace mpsx::runtime {
void for_each_kernel(const std::function<void(KernelEntry&)>& visit);
}
