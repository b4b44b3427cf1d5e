// Settings and call records of the fake libcuda.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fake {

struct Launch {
  std::string kernel;
  unsigned grid[3], block, shared;
  std::vector<std::vector<unsigned char>> parameters;  // the bytes of each parameter
  bool early = false;                                  // may start before the previous launch has completed
};

struct Control {
  // Properties of the simulated machine. Tests must set them before the driver starts.
  int version = 13000, devices = 1, major = 9, concurrent = 1;
  int shared_memory = 232448;  // maximum bytes per block
  size_t total = size_t(8) << 30, free = size_t(8) << 30;

  std::vector<Launch> launches;            // in launch order
  std::vector<std::string> log;            // all calls except queries
  std::vector<std::string> wrong;          // violations of the API's rules
  std::atomic<int> compiled = 0;           // number of compiled PTX programs
  int graphs = 0;                          // number of graphs and executable graphs that exist
  std::vector<std::vector<size_t>> edges;  // the nodes that each node of the last graph waits for
  bool paused = false;                     // while set, the GPU works only when a thread waits
  std::string failing;                     // name of a kernel that fails with an illegal address
  bool line_info = false;                  // whether the last compilation generates line information
  unsigned registers = 0;                  // the last compilation's limit on a thread's registers; 0 if it has none
  int reject_link = 0;                     // number of compilations that fail
  int links_at_once = 0;                   // a compilation waits until so many have started

  // Counts a compilation. Returns false if not enough others start.
  bool compile() {
    ++compiled;
    for (int i = 0; compiled < links_at_once && i < 3000; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return compiled >= links_at_once;
  }
  void record(const char* name) {
    const std::lock_guard<std::mutex> lock(mutex);
    log.push_back(name);
  }

 private:
  std::mutex mutex;
};

}  // namespace fake

extern "C" fake::Control* fake_cuda();
