#include "driver/metal/event.h"

#include <algorithm>

namespace mpsx::driver::metal {

void MetalEvent::record(CommandStream& stream) {
  Mark mark = stream.mark();
  std::lock_guard<std::mutex> lock(mutex_);
  mark_ = std::move(mark);
  recorded_ = true;
}

Mark MetalEvent::mark() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return mark_;
}

bool MetalEvent::done() const {
  AutoreleasePool pool;
  const Mark mark = this->mark();
  if (mark.batch == 0 || mark.progress.get().signaledValue >= mark.batch) return true;
  // A command buffer that failed signals nothing.
  return mark.last.get().status >= MTLCommandBufferStatusCompleted;
}

// For the command buffer and not for the signal, which does not come where the work fails.
void MetalEvent::synchronize() const {
  AutoreleasePool pool;
  const Mark mark = this->mark();
  if (mark.last) [mark.last.get() waitUntilCompleted];
}

// When the GPU came to the mark: at the end of the work before it, or at once where that was over already.
double MetalEvent::reached() const {
  AutoreleasePool pool;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!recorded_) throw Error("elapsed_time: both events must have been recorded");
  }
  if (!done()) throw Error("elapsed_time: both events must have been reached; synchronize them first");
  const Mark mark = this->mark();
  if (!mark.last) return mark.since;
  [mark.last.get() waitUntilCompleted];  // the signal comes a little before its time is known
  return std::max(mark.last.get().GPUEndTime, mark.since);
}

double MetalEvent::elapsed_ms(const MetalEvent& from, const MetalEvent& to) {
  return (to.reached() - from.reached()) * 1e3;
}

}  // namespace mpsx::driver::metal
