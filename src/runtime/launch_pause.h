// Blocks launches while one is alive: no thread is then between dispatching a kernel and recording the memory it uses,
// so memory whose last use is complete stays the CPU's. For memory that the CPU reads behind its user's back.
#pragma once

#include <mutex>

namespace mpsx::runtime {

// Held by every launch on an asynchronous driver: launches are serialized anyway, and with a shared mutex two launching
// threads could starve the pause.
std::mutex& launch_mutex();

class LaunchPause {
  std::lock_guard<std::mutex> lock_{launch_mutex()};
};

}  // namespace mpsx::runtime
