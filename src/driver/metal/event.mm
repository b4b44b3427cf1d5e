#include "driver/metal/event.h"

#include <algorithm>

namespace mpsx::driver::metal {

void MetalEvent::record(CommandStream& stream) {
  Checkpoint checkpoint = stream.checkpoint();
  std::lock_guard<std::mutex> lock(mutex_);
  checkpoint_ = std::move(checkpoint);
  recorded_ = true;
}

Checkpoint MetalEvent::checkpoint() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return checkpoint_;
}

bool MetalEvent::query() const {
  AutoreleasePool pool;
  const Checkpoint checkpoint = this->checkpoint();
  if (checkpoint.batch == 0 || checkpoint.progress.get().signaledValue >= checkpoint.batch) return true;
  // A failed command buffer does not signal the event.
  return checkpoint.last.get().status >= MTLCommandBufferStatusCompleted;
}

// Waits for the command buffer and not for the signal, because a failed command buffer never signals.
void MetalEvent::synchronize() const {
  AutoreleasePool pool;
  const Checkpoint checkpoint = this->checkpoint();
  if (checkpoint.last) [checkpoint.last.get() waitUntilCompleted];
}

// Returns the time at which the work before the event completed, or at which the event was recorded if that was later.
double MetalEvent::completion_time() const {
  AutoreleasePool pool;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!recorded_) throw Error("elapsed_time: expected both events to be recorded");
  }
  if (!query()) throw Error("elapsed_time: expected both events to be complete; synchronize them first");
  const Checkpoint checkpoint = this->checkpoint();
  if (!checkpoint.last) return checkpoint.recorded_at;
  [checkpoint.last.get() waitUntilCompleted];  // the signal may arrive before GPUEndTime is set
  return std::max(checkpoint.last.get().GPUEndTime, checkpoint.recorded_at);
}

double MetalEvent::elapsed_ms(const MetalEvent& from, const MetalEvent& to) {
  return (to.completion_time() - from.completion_time()) * 1e3;
}

}  // namespace mpsx::driver::metal
