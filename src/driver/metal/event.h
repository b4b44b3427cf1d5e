// An event marks a checkpoint in the stream and reports the GPU's time there. The GPU signals a shared event at each
// checkpoint, so query() neither takes a lock nor waits. The time of an event is when the GPU finished the command
// buffer before it.
#pragma once

#include "driver/metal/command_stream.h"

namespace mpsx::driver::metal {

class MetalEvent {
 public:
  void record(CommandStream&);
  bool query() const;  // true if the event was never recorded
  void synchronize() const;
  // Throws Error if one of the events was not recorded or has not completed.
  static double elapsed_ms(const MetalEvent& from, const MetalEvent& to);

 private:
  Checkpoint checkpoint() const;
  double completion_time() const;

  mutable std::mutex mutex_;
  Checkpoint checkpoint_;
  bool recorded_ = false;
};

}  // namespace mpsx::driver::metal
