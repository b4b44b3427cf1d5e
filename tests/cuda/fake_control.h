// The fake libcuda's settings, which tests change, and its records, which they read.
#pragma once

#include <string>
#include <vector>

namespace fake {

struct Launch {
  std::string kernel;
  unsigned grid[3], block, shared;
  std::vector<std::vector<unsigned char>> parameters;  // their bytes
};

struct Control {
  // The machine; to be set before the driver starts.
  int version = 13000, devices = 1, major = 9, concurrent = 1;
  size_t total = size_t(8) << 30, free = size_t(8) << 30;

  std::vector<Launch> launches;    // in order
  std::vector<std::string> log;    // what was called, but for queries
  std::vector<std::string> wrong;  // rules that were broken
  int compiled = 0;                // PTX programs
  bool paused = false;             // the GPU does no work until somebody waits
  std::string failing;             // the kernel that ends with an illegal address
  int refuse_link = 0;             // how many compilations fail
};

}  // namespace fake

extern "C" fake::Control* fake_cuda();
