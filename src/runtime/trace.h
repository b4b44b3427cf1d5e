// Records every launch with its start and end times, for torch.profiler.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::runtime {

struct TraceEvent {
  std::string name;
  int64_t begin, end;    // nanoseconds since the epoch
  uint64_t correlation;  // id of the PyTorch operator that launched the kernel, or 0
  int64_t stream;
};

void start_trace();
std::vector<TraceEvent> stop_trace();  // waits for the device

extern std::atomic<bool> tracing;

// Maintain a stack of the profiler's ids for the operators that the calling thread is executing.
void push_correlation(uint64_t id);
void pop_correlation();

// Traces what this thread's current stream executes during the scope. On an asynchronous driver, the times come from
// the device's clock. `name` must outlive the scope.
class TraceScope {
 public:
  explicit TraceScope(const std::string& name) {
    if (tracing.load(std::memory_order_relaxed)) begin(name);
  }
  ~TraceScope() {
    if (name_) end();
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  void begin(const std::string& name);
  void end() noexcept;

  const std::string* name_ = nullptr;
  int64_t begin_ = 0;
  void* event_ = nullptr;
};

}  // namespace mpsx::runtime
