// Kernel profiling on the simt driver. Counts the memory accesses, calls and executed blocks of each launch.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace mpsx::driver {

// Returns the path of a library that contains `kernel`, from `library`, compiled for profiling. Compiles it if
// necessary (python/mpsx/kernel_profile). Throws Error on failure.
using FindProfiled = std::function<std::string(const std::string& library, const std::string& kernel)>;

// Starts to profile all launches. If `find` is null, stops profiling.
void set_kernel_profile(FindProfiled find);

// A profiled launch. `counts` is in JSON format (src/driver/host/simt/launch_counts.h).
struct ProfiledLaunch {
  std::string kernel, counts;
};
// Returns the launches that were recorded since the last call, and forgets them.
std::vector<ProfiledLaunch> take_profiled_launches();

}  // namespace mpsx::driver
