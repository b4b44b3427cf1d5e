// Records the launches of a thread while they run, and replays them later without Python, checks or allocations. On
// drivers with graphs (CUDA), a replay is a single launch. Otherwise, it dispatches each launch again.
//
// A recording depends on the addresses of its arguments. It owns the memory that was allocated while it was recorded
// (private_pool.h), and replay() checks that all other memory is still where it was.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "driver/graph.h"
#include "runtime/kernel_library.h"
#include "runtime/private_pool.h"

namespace mpsx::runtime {

// The seed and the offset of a random number generator.
struct RandomState {
  uint64_t seed = 0, offset = 0;
};

class LaunchRecording {
 public:
  LaunchRecording() = default;
  LaunchRecording(const LaunchRecording&) = delete;
  LaunchRecording& operator=(const LaunchRecording&) = delete;

  // Call this before the first launch, with the state of the default generator.
  void start(RandomState random) { random_ = random; }
  void add(KernelEntry&, std::span<const driver::Argument>, const driver::Dispatch&);
  // Records that a launch uses the block at `location`, which contains `address`.
  void add_use(const void* address, const Location& location);
  // Records that `value`, an argument of the next launch, begins with a RandomState.
  void add_random_argument(const void* value) { random_argument_ = value; }
  // Records that the last launch reports errors to `record`: an ErrorRecord of the operator `op`, or the ErrorMessages
  // of its kernel if `op` is null.
  void add_error_check(const char* op, void* record);
  // Marks the recording as impossible to replay. Keeps the first reason.
  void reject(const std::string& reason) {
    if (reason_.empty()) reason_ = reason;
  }

  PrivatePool& pool() { return pool_; }
  // Call this once, after the last launch. Returns why the recording cannot be replayed, or an empty string.
  const std::string& finish();
  // Launches everything again, with random numbers that start at `random`. Returns false if memory that the recording
  // does not own has moved, in which case nothing is launched.
  bool replay(RandomState random);
  size_t size() const { return launches_.size(); }

 private:
  struct Recorded {
    KernelEntry* entry;
    driver::Dispatch dispatch;
    size_t first, count;  // arguments
    void* random;         // the argument that begins with a RandomState, or null
    const char* op;       // see add_error_check()
    void* error_record;
  };
  // A block outside the pool, and where it was.
  struct External {
    const void* address;
    void* handle;
    size_t offset;
    std::atomic<uint64_t>* last_use_seq;
  };

  bool locate_externals();
  void set_random(RandomState now);
  void check_errors(const Recorded&) const;

  PrivatePool pool_;  // first, because it is destroyed last
  std::string reason_;
  RandomState random_;  // of the previous launches
  const void* random_argument_ = nullptr;
  std::vector<Recorded> launches_;
  std::vector<driver::Argument> arguments_;
  std::vector<std::unique_ptr<char[]>> values_;  // arguments passed by value
  std::vector<External> externals_;
  std::vector<std::atomic<uint64_t>*> own_uses_;
  std::vector<driver::RecordedDispatch> dispatches_;
  std::unique_ptr<driver::Graph> graph_;  // null if the driver does not support it
};

// The recording of the calling thread, or null.
inline thread_local constinit LaunchRecording* active_recording = nullptr;
// Returns the recording that the calling thread's launches belong to, or null.
inline LaunchRecording* recording() { return active_pool ? active_recording : nullptr; }
// Call this before an operation that replaying launches does not repeat, such as a computation on the CPU.
inline void reject_recording(const char* what, const char* name = "") {
  if (LaunchRecording* const current = recording()) current->reject(std::string(what) + name);
}

}  // namespace mpsx::runtime
