// Blocks launches while alive. During a pause, the memory use of every dispatched kernel has been recorded, so the CPU
// can safely access memory whose last recorded use is complete.
#pragma once

#include <mutex>

namespace mpsx::runtime {

// Every launch on an asynchronous driver holds this mutex. Launches are serialized anyway. A shared mutex would let two
// launching threads starve the pause.
std::mutex& launch_mutex();

class LaunchPause {
  std::lock_guard<std::mutex> lock_{launch_mutex()};
};

}  // namespace mpsx::runtime
