#include "runtime/profile.h"

#include <deque>
#include <mutex>
#include <unordered_map>

#include "runtime/kernel_registry.h"
#include "runtime/launch_timer.h"

namespace mpsx::runtime {

std::atomic<bool> profiling{false};
std::atomic<bool> logging{false};

namespace {

struct Routes {
  std::mutex mutex;
  std::deque<RouteEntry> entries;
  std::unordered_map<std::string, RouteEntry*> by_name;
  std::vector<std::string> log;
};
Routes& routes() {
  static Routes* r = new Routes;
  return *r;
}

constexpr const char* kPrefixes[] = {"kernel:", "vendor:", "fallback:"};

}  // namespace

RouteEntry& route_entry(const std::string& op, Route route, const std::string& library) {
  Routes& r = routes();
  std::lock_guard<std::mutex> lock(r.mutex);
  const std::string key = kPrefixes[size_t(route)] + op;
  auto it = r.by_name.find(key);
  if (it != r.by_name.end()) return *it->second;
  RouteEntry& entry = r.entries.emplace_back();
  entry.name = op;
  entry.route = route;
  entry.library = library;
  r.by_name.emplace(key, &entry);
  return entry;
}

void set_profiling(bool on) { profiling.store(on, std::memory_order_relaxed); }

std::vector<ProfileRow> profile_rows() {
  collect_launch_times();
  std::vector<ProfileRow> rows;
  for_each_kernel([&](KernelEntry& e) {
    if (uint64_t n = e.launches.load()) rows.push_back({e.name, Route::native, "", n, e.nanoseconds.load()});
  });
  Routes& r = routes();
  std::lock_guard<std::mutex> lock(r.mutex);
  for (auto& e : r.entries)
    if (uint64_t n = e.calls.load()) rows.push_back({e.name, e.route, e.library, n, e.nanoseconds.load()});
  return rows;
}

void reset_profile() {
  discard_launch_times();
  for_each_kernel([](KernelEntry& e) {
    e.launches.store(0);
    e.nanoseconds.store(0);
  });
  Routes& r = routes();
  std::lock_guard<std::mutex> lock(r.mutex);
  for (auto& e : r.entries) {
    e.calls.store(0);
    e.nanoseconds.store(0);
  }
}

void open_launch_log() {
  Routes& r = routes();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.log.clear();
  logging.store(true);
}

std::vector<std::string> close_launch_log() {
  Routes& r = routes();
  std::lock_guard<std::mutex> lock(r.mutex);
  logging.store(false);
  return std::move(r.log);
}

void log_launch(Route route, const std::string& name) {
  Routes& r = routes();
  std::lock_guard<std::mutex> lock(r.mutex);
  r.log.push_back(kPrefixes[size_t(route)] + name);
}

}  // namespace mpsx::runtime
