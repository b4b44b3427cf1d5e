#include "runtime/trace.h"

#include <chrono>
#include <mutex>

#include "runtime/device.h"
#include "runtime/stream.h"

namespace mpsx::runtime {

std::atomic<bool> tracing{false};

namespace {

struct Entry {
  TraceEvent event;
  driver::Event *from, *to;  // null on a synchronous driver
};

struct Trace {
  std::mutex mutex;
  std::vector<Entry> entries;
  driver::Event* start = nullptr;  // recorded at `start_time`
  int64_t start_time = 0;
};
Trace& trace() {
  static Trace* t = new Trace;
  return *t;
}

thread_local std::vector<uint64_t> correlations;

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

driver::Event* record_event() {
  driver::Event* event = driver().new_event();
  driver().record(event, driver_stream(current_stream()));
  return event;
}

}  // namespace

void push_correlation(uint64_t id) { correlations.push_back(id); }
void pop_correlation() {
  if (!correlations.empty()) correlations.pop_back();
}

void start_trace() {
  Trace& t = trace();
  std::lock_guard<std::mutex> lock(t.mutex);
  t.entries.clear();
  if (driver().traits().asynchronous) {
    synchronize();
    t.start = record_event();
    driver().synchronize(t.start);
  }
  t.start_time = now();
  tracing.store(true);
}

std::vector<TraceEvent> stop_trace() {
  tracing.store(false);
  synchronize();
  Trace& t = trace();
  std::lock_guard<std::mutex> lock(t.mutex);
  std::vector<TraceEvent> events;
  for (Entry& entry : t.entries) {
    if (entry.from) {
      entry.event.begin = t.start_time + int64_t(driver().elapsed_ms(t.start, entry.from) * 1e6);
      entry.event.end = t.start_time + int64_t(driver().elapsed_ms(t.start, entry.to) * 1e6);
      driver().destroy(entry.from);
      driver().destroy(entry.to);
    }
    events.push_back(std::move(entry.event));
  }
  t.entries.clear();
  if (t.start) driver().destroy(t.start);
  t.start = nullptr;
  return events;
}

void TraceScope::begin(const std::string& name) {
  if (driver().traits().asynchronous) event_ = record_event();
  begin_ = now();
  name_ = &name;
}

void TraceScope::end() noexcept {
  try {
    Entry entry{{*name_, begin_, now(), correlations.empty() ? 0 : correlations.back(), current_stream()},
                static_cast<driver::Event*>(event_),
                event_ ? record_event() : nullptr};
    Trace& t = trace();
    std::lock_guard<std::mutex> lock(t.mutex);
    t.entries.push_back(std::move(entry));
  } catch (const std::exception&) {  // if the launch failed, it throws its own error
  }
}

}  // namespace mpsx::runtime
