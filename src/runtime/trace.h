// A record of each launch with its times, for torch.profiler.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace mpsx::runtime {

struct TraceEvent {
  std::string name;
  int64_t begin, end;    // nanoseconds since the epoch
  uint64_t correlation;  // of the torch operator that launched it; 0: none
  int64_t stream;
};

void start_trace();
std::vector<TraceEvent> stop_trace();  // waits for the device

extern std::atomic<bool> tracing;

// The operators that this thread is in, as the profiler numbers them.
void push_correlation(uint64_t id);
void pop_correlation();

// The work of a scope, of this thread's current stream: the device's own clock where it is asynchronous. `name`
// outlives the scope.
class Traced {
 public:
  explicit Traced(const std::string& name) {
    if (tracing.load(std::memory_order_relaxed)) begin(name);
  }
  ~Traced() {
    if (name_) end();
  }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

 private:
  void begin(const std::string& name);
  void end() noexcept;

  const std::string* name_ = nullptr;
  int64_t begin_ = 0;
  void* event_ = nullptr;
};

}  // namespace mpsx::runtime
