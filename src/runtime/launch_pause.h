// Blocks launches while alive. No thread is then between dispatching a kernel and recording which memory the kernel
// uses, so memory whose last use is complete stays available to the CPU.
#pragma once

#include <mutex>

namespace mpsx::runtime {

// Every launch on an asynchronous driver holds this mutex. Launches are serialized anyway, and with a shared mutex two
// launching threads could starve the pause.
std::mutex& launch_mutex();

class LaunchPause {
  std::lock_guard<std::mutex> lock_{launch_mutex()};
};

}  // namespace mpsx::runtime
