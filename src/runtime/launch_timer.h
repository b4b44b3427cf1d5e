// Measures the device time of each launch between two events, one before and one after the launch.
#pragma once

#include "driver/driver.h"
#include "runtime/kernel_library.h"

namespace mpsx::runtime {

// Times one launch on an asynchronous driver. The caller must hold launch_mutex().
class LaunchTimer {
 public:
  LaunchTimer(KernelEntry&, driver::Stream*);
  void stop();  // call this after the launch; otherwise the launch is not counted
  ~LaunchTimer();
  LaunchTimer(const LaunchTimer&) = delete;

 private:
  KernelEntry& entry_;
  driver::Stream* stream_;
  driver::Event* from_;
};

// Waits for the timed launches and adds their device times to the kernel entries.
void collect_launch_times();
void discard_launch_times();

}  // namespace mpsx::runtime
