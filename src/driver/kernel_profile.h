// Profiles of launches on the simt driver: what their threads did, counted.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mpsx::driver {

// Finds a library in which a kernel of `library` is compiled for profiling (python/mpsx/kernel_profile), and may
// compile it. Throws Error.
using FindProfiled = std::function<std::string(const std::string& library, const std::string& kernel)>;

// Profiles every launch from now on; a null function ends that.
void set_kernel_profile(FindProfiled find);

// A profiled launch. `counts` is text in JSON (src/driver/host/simt/launch_counts.h).
struct ProfiledLaunch {
  std::string kernel, counts;
};
// Those since the last call.
std::vector<ProfiledLaunch> take_profiled_launches();

}  // namespace mpsx::driver
