// Launches wait while one of these lives: no thread is between handing a kernel over and noting what memory it uses, so
// that memory whose last use is over stays the CPU's. For memory that the CPU reads without its user's consent.
#pragma once

#include <mutex>
#include <shared_mutex>

namespace mpsx::runtime {

std::shared_mutex& launch_mutex();  // a launch on an asynchronous driver holds it shared

class LaunchPause {
  std::unique_lock<std::shared_mutex> lock_{launch_mutex()};
};

}  // namespace mpsx::runtime
