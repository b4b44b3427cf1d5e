// Profiles of launches on the simt driver: counts of what their threads did.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mpsx::driver {

// Returns the path of a library in which a kernel of `library` is compiled for profiling (python/mpsx/kernel_profile),
// and compiles it if necessary. Throws Error.
using FindProfiled = std::function<std::string(const std::string& library, const std::string& kernel)>;

// Starts profiling every launch; a null function stops it.
void set_kernel_profile(FindProfiled find);

// A profiled launch. `counts` is JSON (src/driver/host/simt/launch_counts.h).
struct ProfiledLaunch {
  std::string kernel, counts;
};
// Returns and removes the launches since the last call.
std::vector<ProfiledLaunch> take_profiled_launches();

}  // namespace mpsx::driver
