// Launches wait while one of these lives: no thread is between handing a kernel over and noting what memory it uses, so
// that memory whose last use is over stays the CPU's. For memory that the CPU reads without its user's consent.
#pragma once

#include <mutex>

namespace mpsx::runtime {

// A launch on an asynchronous driver holds it: they are one sequence anyhow, and readers of a shared mutex could keep
// the pause waiting for as long as two threads launch.
std::mutex& launch_mutex();

class LaunchPause {
  std::lock_guard<std::mutex> lock_{launch_mutex()};
};

}  // namespace mpsx::runtime
