// Settings of the fake libcuda, and its records of calls.
#pragma once

#include <string>
#include <vector>

namespace fake {

struct Launch {
  std::string kernel;
  unsigned grid[3], block, shared;
  std::vector<std::vector<unsigned char>> parameters;  // the bytes of each parameter
};

struct Control {
  // The simulated machine. Set these before the driver starts.
  int version = 13000, devices = 1, major = 9, concurrent = 1;
  int shared_memory = 232448;  // the most bytes that a block can use
  size_t total = size_t(8) << 30, free = size_t(8) << 30;

  std::vector<Launch> launches;    // in order
  std::vector<std::string> log;    // calls except queries
  std::vector<std::string> wrong;  // violated rules
  int compiled = 0;                // number of compiled PTX programs
  bool paused = false;             // the GPU does no work until a thread waits
  std::string failing;             // the kernel that fails with an illegal address
  int reject_link = 0;             // how many compilations fail
};

}  // namespace fake

extern "C" fake::Control* fake_cuda();
