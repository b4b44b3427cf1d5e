// Events mark checkpoints in the stream and report the GPU's time there. The GPU signals a shared event at each
// checkpoint, so a query takes no lock and does not wait. The time of an event is the time at which the GPU finished
// the preceding command buffer.
#pragma once

#include "driver/metal/command_stream.h"

namespace mpsx::driver::metal {

class MetalEvent {
 public:
  void record(CommandStream&);
  bool query() const;  // also true if the event was never recorded
  void synchronize() const;
  // Throws Error if either event was not recorded or is not complete.
  static double elapsed_ms(const MetalEvent& from, const MetalEvent& to);

 private:
  Checkpoint checkpoint() const;
  double completion_time() const;

  mutable std::mutex mutex_;
  Checkpoint checkpoint_;
  bool recorded_ = false;
};

}  // namespace mpsx::driver::metal
