// Bringing the device to life: each part registers itself with torch, in the order that register.cpp gives.
#pragma once

#include <string>

namespace mpsx::backend {

void register_guard();
void register_hooks();
void register_fallback();
void register_vendor_ops();

// All of it; once a process, after the library's static initialisers (native kernels) have run.
// `library_directory`: where kernel libraries lie.
void initialize(const std::string& library_directory);

}  // namespace mpsx::backend
