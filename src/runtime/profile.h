// Counts which kernels and operators ran and, on request, records their times and order. The op-support matrix and the
// demo use this data.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::runtime {

enum class Route : uint8_t { native, vendor, fallback };

// Counts calls to an operator that ran on the CPU, through the vendor or the fallback route.
struct RouteEntry {
  std::string name;  // "aten::mm"
  Route route;
  std::string library;  // for the vendor route: "oneDNN/MKL through ATen"
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> nanoseconds{0};  // fallback: always measured; vendor: only while profiling
};
RouteEntry& route_entry(const std::string& op, Route route, const std::string& library = "");

extern std::atomic<bool> profiling;  // costs two clock reads per launch
void set_profiling(bool on);

// A snapshot, with one row per kernel or operator called.
struct ProfileRow {
  std::string name;
  Route route;
  std::string library;
  uint64_t calls, nanoseconds;
};
std::vector<ProfileRow> profile_rows();
void reset_profile();

// While a log is open, records the names of kernels and operators in execution order. Logs do not nest.
void open_launch_log();
std::vector<std::string> close_launch_log();  // "kernel:softmax_f32", "vendor:aten::mm", "fallback:aten::eig"
extern std::atomic<bool> logging;
void log_launch(Route route, const std::string& name);

}  // namespace mpsx::runtime
