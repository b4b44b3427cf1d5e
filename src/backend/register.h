// Registration of the device with torch, part by part, in the order of register.cpp.
#pragma once

#include <functional>
#include <string>

namespace mpsx::backend {

void register_guard();
void register_hooks();
void register_fallback();
void register_profiler_stubs();

// Registers all of it, once a process, after the library's static initialisers (launchers) have run.
// `find_libraries`: see runtime::configure.
void initialize(std::function<std::string()> find_libraries);

}  // namespace mpsx::backend
