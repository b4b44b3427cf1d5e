// Blocks launches while it exists. During a pause, the memory use of every dispatched kernel has been recorded, so the
// CPU can safely access memory once its last recorded use is complete.
#pragma once

#include <mutex>

namespace mpsx::runtime {

// Every launch on an asynchronous driver holds this mutex. It is not a shared mutex, because with two threads that keep
// launching kernels a pause might never get the lock. Launches are serialized anyway.
std::mutex& launch_mutex();

class LaunchPause {
  std::lock_guard<std::mutex> lock_{launch_mutex()};
};

}  // namespace mpsx::runtime
