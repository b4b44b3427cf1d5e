// Events: marks in the stream, with the GPU's clock. The GPU says by a shared event that it has come to one, so that
// asking takes no lock and no wait; when it came there is the end of the command buffer, whose last command that is.
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
