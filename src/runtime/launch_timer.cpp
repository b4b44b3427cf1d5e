#include "runtime/launch_timer.h"

#include <algorithm>
#include <mutex>
#include <vector>

#include "runtime/device.h"

namespace mpsx::runtime {
namespace {

struct Timed {
  KernelEntry* entry;
  driver::Event *from, *to;
};
struct Times {
  std::mutex mutex;
  std::vector<driver::Event*> spare;
  std::vector<Timed> pending;
};
Times& times() {
  static auto* t = new Times;  // threads may launch while the process ends
  return *t;
}

constexpr size_t kMostPending = 4096;  // launches

driver::Event* take() {
  Times& t = times();
  std::lock_guard<std::mutex> lock(t.mutex);
  if (t.spare.empty()) return driver().new_event();
  driver::Event* const event = t.spare.back();
  t.spare.pop_back();
  return event;
}

void drain(bool count) {
  Times& t = times();
  std::lock_guard<std::mutex> lock(t.mutex);
  for (const Timed& timed : t.pending) {
    if (count) {
      driver().synchronize(timed.to);
      const double ms = std::max(0.0, driver().elapsed_ms(timed.from, timed.to));
      timed.entry->nanoseconds.fetch_add(uint64_t(ms * 1e6), std::memory_order_relaxed);
    }
    t.spare.insert(t.spare.end(), {timed.from, timed.to});
  }
  t.pending.clear();
}

}  // namespace

LaunchTimer::LaunchTimer(KernelEntry& entry, driver::Stream* stream) : entry_(entry), stream_(stream), from_(take()) {
  driver().record(from_, stream_);
}

void LaunchTimer::stop() {
  driver::Event* const to = take();
  driver().record(to, stream_);
  bool full = false;
  {
    Times& t = times();
    std::lock_guard<std::mutex> lock(t.mutex);
    t.pending.push_back({&entry_, from_, to});
    full = t.pending.size() >= kMostPending;
  }
  from_ = nullptr;
  if (full) collect_launch_times();
}

LaunchTimer::~LaunchTimer() {
  if (!from_) return;
  Times& t = times();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.spare.push_back(from_);
}

void collect_launch_times() { drain(true); }
void forget_launch_times() { drain(false); }

}  // namespace mpsx::runtime
