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
  std::vector<driver::Event*> unused;
  std::vector<Timed> pending;
};
Times& times() {
  static auto* t = new Times;  // never destroyed, because threads may launch kernels while the process exits
  return *t;
}

constexpr size_t kMaxPending = 4096;  // number of launches

driver::Event* acquire_event() {
  Times& t = times();
  std::lock_guard<std::mutex> lock(t.mutex);
  if (t.unused.empty()) return driver().new_event();
  driver::Event* const event = t.unused.back();
  t.unused.pop_back();
  return event;
}

void clear_pending(bool count) {
  Times& t = times();
  std::lock_guard<std::mutex> lock(t.mutex);
  for (const Timed& timed : t.pending) {
    if (count) {
      driver().synchronize(timed.to);
      const double ms = std::max(0.0, driver().elapsed_ms(timed.from, timed.to));
      timed.entry->nanoseconds.fetch_add(uint64_t(ms * 1e6), std::memory_order_relaxed);
    }
    t.unused.insert(t.unused.end(), {timed.from, timed.to});
  }
  t.pending.clear();
}

}  // namespace

LaunchTimer::LaunchTimer(KernelEntry& entry, driver::Stream* stream)
    : entry_(entry), stream_(stream), from_(acquire_event()) {
  driver().record(from_, stream_);
}

void LaunchTimer::stop() {
  driver::Event* const to = acquire_event();
  driver().record(to, stream_);
  bool full = false;
  {
    Times& t = times();
    std::lock_guard<std::mutex> lock(t.mutex);
    t.pending.push_back({&entry_, from_, to});
    full = t.pending.size() >= kMaxPending;
  }
  from_ = nullptr;
  if (full) collect_launch_times();
}

LaunchTimer::~LaunchTimer() {
  if (!from_) return;
  Times& t = times();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.unused.push_back(from_);
}

void collect_launch_times() { clear_pending(true); }
void discard_launch_times() { clear_pending(false); }

}  // namespace mpsx::runtime
