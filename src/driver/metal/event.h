// Events: marks in the stream, with the GPU's clock. The GPU signals a shared event when it reaches one, so a query
// takes no lock and does not wait; the time is the end of the command buffer, of which the mark is the last command.
#pragma once

#include "driver/metal/command_stream.h"

namespace mpsx::driver::metal {

class MetalEvent {
 public:
  void record(CommandStream&);
  bool done() const;  // true if it was never recorded
  void synchronize() const;
  // Milliseconds from one to the other. Throws Error if one was not recorded or not reached.
  static double elapsed_ms(const MetalEvent& from, const MetalEvent& to);

 private:
  Mark mark() const;
  double reached() const;

  mutable std::mutex mutex_;
  Mark mark_;
  bool recorded_ = false;
};

}  // namespace mpsx::driver::metal
