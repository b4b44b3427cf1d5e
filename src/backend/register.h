// Registers the components of the device with PyTorch, in the order of register.cpp.
#pragma once

#include <functional>
#include <string>

namespace mpsx::backend {

void register_guard();
void register_hooks();
void register_fallback();
void register_profiler_stubs();

// Registers all components once per process. Call this after the library's static initializers have registered the
// launchers. `find_libraries` is passed to runtime::configure.
void initialize(std::function<std::string()> find_libraries);

}  // namespace mpsx::backend
