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
  return !mark.last || mark.last.get().status >= MTLCommandBufferStatusCompleted;
}

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
  return mark.last ? std::max(mark.last.get().GPUEndTime, mark.since) : mark.since;
}

double MetalEvent::elapsed_ms(const MetalEvent& from, const MetalEvent& to) {
  return (to.reached() - from.reached()) * 1e3;
}

}  // namespace mpsx::driver::metal
