// Measures device times of launches, with an event before and after each launch.
#pragma once

#include "driver/driver.h"
#include "runtime/kernel_library.h"

namespace mpsx::runtime {

// Times one launch on an asynchronous driver. The caller must hold launch_mutex().
class LaunchTimer {
 public:
  LaunchTimer(KernelEntry&, driver::Stream*);
  void stop();  // call after the launch, or the launch is not counted
  ~LaunchTimer();
  LaunchTimer(const LaunchTimer&) = delete;

 private:
  KernelEntry& entry_;
  driver::Stream* stream_;
  driver::Event* from_;
};

// Waits for the timed launches and adds their times to the kernel entries.
void collect_launch_times();
void discard_launch_times();

}  // namespace mpsx::runtime
