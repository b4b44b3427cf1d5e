// The counters of one launch, and their JSON format.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "driver/host/simt/traffic.h"
#include "metal_stdlib/kernel_abi.h"

namespace mpsx::driver::host::simt {

enum class Space : uint8_t { device, threadgroup, constant };
inline constexpr size_t kSpaces = 3;

struct LaunchCounts {
  struct Block {
    uint64_t steps = 0;  // executions by a SIMD group with any active lanes
    uint64_t lanes = 0;  // sum of executions over the lanes
  };
  struct Call {
    uint64_t times = 0, lanes = 0;
  };
  using Location = std::tuple<std::string, std::string, int>;  // function, file, line

  std::vector<std::array<AccessCounts, kSpaces>> sites;  // indexed by the number of the site in the kernel's library
  std::vector<Block> blocks;
  std::map<Location, Call> calls;  // calls to barriers and SIMD functions
  DeviceMemory memory;
  uint64_t threadgroup_bytes = 0, simdgroups = 0;

  // Returns the counters as JSON:
  // {"library": …, "threads": [x, y, z], "groups": […], "group": […], "simdgroups": n, "threadgroup_bytes": n,
  //  "read": {"distinct": bytes, "moved": sectors, "shared": sectors}, "written": {…},
  //  "sites": [[site, space, requests, lanes, bytes, transactions, min_transactions, repeated], …],
  //  "blocks": [[block, steps, lanes], …], "calls": [[function, file, line, times, lanes], …]}
  std::string text(const std::string& library, const mpsx_launch&) const;
};

}  // namespace mpsx::driver::host::simt
