// Counts which kernels and operators have run. On request, also records their times and order. The op-support matrix
// and the demo use this data.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::runtime {

enum class Route : uint8_t { native, vendor, fallback };

// Counts the calls of an operator that run on the CPU, either in a vendor library or as a fallback.
struct RouteEntry {
  std::string name;  // "aten::mm"
  Route route;
  std::string library;  // for vendor calls, such as "oneDNN/MKL through ATen"
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> nanoseconds{0};  // always measured for fallbacks, but only while profiling for vendor calls
};
RouteEntry& route_entry(const std::string& op, Route route, const std::string& library = "");

extern std::atomic<bool> profiling;  // while true, each launch costs two more clock reads
void set_profiling(bool on);

// One row of a snapshot. There is one row for each kernel or operator that was called.
struct ProfileRow {
  std::string name;
  Route route;
  std::string library;
  uint64_t calls, nanoseconds;
};
std::vector<ProfileRow> profile_rows();
void reset_profile();

// Starts a log that records the names of kernels and operators in execution order. Logs cannot be nested.
void open_launch_log();
std::vector<std::string> close_launch_log();  // "kernel:softmax_f32", "vendor:aten::mm", "fallback:aten::eig"
extern std::atomic<bool> logging;
void log_launch(Route route, const std::string& name);

}  // namespace mpsx::runtime
