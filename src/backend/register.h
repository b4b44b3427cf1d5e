// Registers the device's components with torch, in the order of register.cpp.
#pragma once

#include <functional>
#include <string>

namespace mpsx::backend {

void register_guard();
void register_hooks();
void register_fallback();
void register_profiler_stubs();

// Registers all components, once per process, after the library's static initializers have registered the launchers.
// Passes `find_libraries` to runtime::configure.
void initialize(std::function<std::string()> find_libraries);

}  // namespace mpsx::backend
